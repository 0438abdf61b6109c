"""Two directives: the public names of a module, and the help texts of all commands.

Both are made when the pages are built, so that no name, option or docstring can be missing.
"""

import importlib
import inspect
import typing
from typing import ClassVar

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

USING = (
    "load", "Translator", "Translation", "Hypothesis", "Search", "train", "resume", "Recipe",
    "create_model", "export", "push", "pull", "list_models", "list_checkpoints", "list_datasets",
    "list_plugins", "read_parallel", "read_tsv", "hash_split", "ZooError", "DataError",
    "HubWarning",
)  # fmt: skip
"""What people call who train and translate; plugins need the other names of `zoo`."""


def names_of(module: str, part: str) -> list[str]:
    """Return the public names of a module; of `zoo`, those for use or those for plugins."""
    names: list[str] = list(importlib.import_module(module).__all__)
    if part == "using":
        return list(USING)
    return [name for name in names if part != "plugins" or name not in USING]


class PublicNames(SphinxDirective):
    """Documents the public names of a module from their docstrings."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the documentation of each name."""
        module = self.arguments[0]
        lines = []
        for name in names_of(module, self.arguments[1] if len(self.arguments) > 1 else ""):
            entry = getattr(importlib.import_module(module), name)
            kind = "class" if inspect.isclass(entry) else "function"
            if kind == "class" and issubclass(entry, Exception):
                kind = "exception"
            alias = typing.get_origin(entry) is not None
            if callable(entry) and not alias:
                lines += [f".. auto{kind}:: {module}.{name}"]
                lines += ["   :members:"] * (kind == "class")
            else:  # autodoc would show the docstring of its type
                lines += [f".. py:data:: {module}.{name}"]
                lines += [f"   :value: {entry}"] * (alias or isinstance(entry, int))
            lines += [""]
        return self.parse_text_to_nodes("````{eval-rst}\n" + "\n".join(lines) + "\n````")


class Commands(SphinxDirective):
    """Shows what `zoo COMMAND --help` prints, for every command."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """Return a section for each command."""
        from zoo.cli import cli

        root = click.Context(cli, info_name="zoo", terminal_width=88, max_content_width=88)
        parts = [f"## zoo\n\n```text\n{cli.get_help(root)}\n```"]
        for name in cli.list_commands(root):
            command = cli.get_command(root, name)
            if command is not None and not command.hidden:
                parts.append(f"## zoo {name}\n\n{self.helps(command, name, root)}")
        return self.parse_text_to_nodes("\n\n".join(parts), allow_section_headings=True)

    def helps(self, command: click.Command, name: str, parent: click.Context) -> str:
        """Return the help text of a command and of its own commands."""
        context = click.Context(command, parent, info_name=name)
        texts = [f"```text\n{command.get_help(context)}\n```"]
        if isinstance(command, click.Group):
            for each in command.list_commands(context):
                child = command.get_command(context, each)
                if child is not None and not child.hidden:
                    texts.append(self.helps(child, each, context))
        return "\n\n".join(texts)


def drop_alias(
    app: Sphinx, what: str, name: str, entry: object, options: object, lines: list[str]
) -> None:
    """Drop the text that Python gives to each field of a NamedTuple."""
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.connect("autodoc-process-docstring", drop_alias)
    app.add_directive("public-names", PublicNames)
    app.add_directive("zoo-commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
