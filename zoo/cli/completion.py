"""Shell completion: names of the registry, files, and keys of `--set`. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
from click.shell_completion import CompletionItem, get_completion_class

from zoo.cli.settings import read_settings
from zoo.errors import ConfigError
from zoo.registry import catalogue
from zoo.registry.declarations import METRICS
from zoo.registry.registry import Registry, default_registry

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

SHELLS = ("bash", "fish", "zsh")


def complete_model(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Complete the name of a model."""
    return _named(default_registry(), "models", word)


def complete_checkpoint(
    ctx: click.Context, param: click.Parameter, word: str
) -> list[CompletionItem]:
    """Complete the name of a checkpoint, an alias, or a folder."""
    items = [*_named(default_registry(), "checkpoints", word), *_aliases(ctx, word)]
    return items or [CompletionItem(word, type="dir")]


def complete_any(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Complete the name of a model, an architecture or a checkpoint, an alias, or a folder."""
    registry = default_registry()
    kinds = ("models", "architectures", "checkpoints")
    items = {item.value: item for kind in kinds for item in _named(registry, kind, word)}
    items |= {item.value: item for item in _aliases(ctx, word) if item.value not in items}
    return list(items.values()) or [CompletionItem(word, type="dir")]


def complete_data(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Complete the name of a dataset, or a file."""
    return _named(default_registry(), "datasets", word) or [CompletionItem(word, type="file")]


def complete_dataset(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Complete the name of a dataset that can be downloaded."""
    datasets = default_registry().datasets
    return [item for item in _named(default_registry(), "datasets", word)
            if datasets[item.value].downloads]  # fmt: skip


def complete_own(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Complete a name in the user's own catalogue."""
    file = catalogue.user_catalogue()
    own = catalogue.read(file) if catalogue.may_exist(file) else catalogue.Contents()
    names = sorted({*own.checkpoints, *own.models, *own.recipes})
    return [CompletionItem(name) for name in names if name.startswith(word)]


def complete_named(kind: str) -> Complete:
    """Return a function that completes a name of a kind, which is given in the plural.

    A format that has an exporter for each of several architectures is named once.
    """

    def complete(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
        items = _named(default_registry(), kind, word)
        names = {item.value.partition(":")[0]: item.help for item in reversed(items)}
        return [CompletionItem(name, help=names[name]) for name in sorted(names)]

    return complete


def complete_plugin(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Complete the name of a plugin or of its package."""
    known = default_registry().plugins
    plugins = (*known.loaded.values(), *known.broken, *known.skipped)
    names = {name for each in plugins for name in (each.name, each.distribution)}
    return [CompletionItem(name) for name in sorted(names) if name.startswith(word)]


def complete_recipe(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Complete the name of a recipe, or a file."""
    return _named(default_registry(), "recipes", word) or [CompletionItem(word, type="file")]


def complete_entry(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Complete a name of the kind that is given before."""
    registry, kind = default_registry(), ctx.params.get("kind")
    return _named(registry, kind, word) if kind in registry.shelves else []


def complete_setting(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Complete a key of the configuration of the model that is named before, or of the recipe."""
    matching = {key: text for key, text in _settings(ctx) if f"{key}=".startswith(word)}
    # Without a space after the equals sign, so that the value follows it.
    return [CompletionItem(f"{key}=", help=text) for key, text in sorted(matching.items())]


def _aliases(ctx: click.Context, word: str) -> list[CompletionItem]:
    """Return the user's aliases that begin with a word; none if the settings are not valid."""
    root = ctx.find_root().command
    try:
        settings = read_settings(root.commands if isinstance(root, click.Group) else {})
    except ConfigError:
        return []
    return [
        CompletionItem(name, help=f"alias of {checkpoint}")
        for name, checkpoint in sorted(settings.aliases.items())
        if name.startswith(word)
    ]


def _settings(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """Yield every key of `--set` with its description."""
    registry = default_registry()
    # An option without its value ends the parsing: arguments before it are in `ctx.args`.
    given = (ctx.params.get("model"), ctx.params.get("name"), *ctx.args)
    for name in (word for word in given if word in registry.models):
        architecture = registry.architecture(registry.models[str(name)].architecture)
        for key, field in architecture.config_type().model_fields.items():
            yield key, field.description or ""
    if ctx.info_name != "info":
        from zoo.registry.recipe import Recipe

        for key, field in Recipe.model_fields.items():
            yield f"recipe.{key}", field.description or ""


def _named(registry: Registry, kind: str, word: str) -> list[CompletionItem]:
    things = {name: getattr(each, "summary", None) for name, each in registry.shelves[kind].items()}
    if kind == "metrics":
        things |= METRICS
    return [CompletionItem(n, help=things[n]) for n in sorted(things) if n.startswith(word)]


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the code that makes SHELL complete commands, options and names.

    \b
    bash: eval "$(zoo completion bash)"          in ~/.bashrc
    fish: zoo completion fish | source           in ~/.config/fish/config.fish
    zsh:  eval "$(zoo completion zsh)"           in ~/.zshrc
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"this version of click does not support {shell}")
    root = click.get_current_context().find_root()
    click.echo(kind(root.command, {}, "zoo", "_ZOO_COMPLETE").source())
