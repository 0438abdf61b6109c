"""Your settings for the command line: names of your own, and default values of options.

They are in `~/.config/zoo/settings.toml`, or in the file that ZOO_SETTINGS names; empty, it names
none. All faults of the file are reported at once.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from zoo.errors import ConfigError, did_you_mean, in_brackets
from zoo.registry.catalogue import NAME, user_catalogue
from zoo.registry.registry import Registry

FILE = "ZOO_SETTINGS"
LARGEST = 100_000
"""The most bytes of the file."""

LISTED = 20
"""About as many faults are listed."""


@dataclass(frozen=True)
class Settings:
    """Aliases of checkpoints, and values of options by command and parameter."""

    aliases: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, dict[str, Any]] = field(default_factory=dict)


def settings_file() -> Path | None:
    """Return the file of the settings, if there is one."""
    given = os.environ.get(FILE)
    if given is None:
        file = user_catalogue().with_name("settings.toml")
    else:
        file = Path(os.path.expanduser(given))
    return file if given != "" and os.path.isfile(file) else None


def read_settings(commands: Mapping[str, click.Command]) -> Settings:
    """Read the user's settings; `commands` are those whose options may have defaults.

    Raises:
        ConfigError: the file is not valid; lists all faults.
    """
    file = settings_file()
    if file is None:
        return Settings()
    settings, faults = Settings(), list[str]()
    try:
        if file.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        content, faults = {}, [str(error)]
    for section, entries in [*content.items()][:LISTED]:
        if section not in ("aliases", "defaults"):
            faults.append(_unknown("section", section, ("aliases", "defaults")))
        elif not isinstance(entries, dict):
            faults.append(f"[{section}] must be a table")
        elif section == "aliases":
            faults += _read_aliases(entries, settings)
        else:
            faults += _read_defaults(entries, commands, settings)
    if faults:
        raise ConfigError(
            f"{file} is invalid", "; ".join(faults), f"Correct it, or ignore it with {FILE}="
        )
    return settings


def checkpoint_of(name: str, registry: Registry) -> str:
    """Return the checkpoint that an alias stands for, perhaps by other aliases.

    A released name is no alias.

    Raises:
        ConfigError: a model or an architecture has the name of the alias.
    """
    aliases = _aliases()
    while name in aliases and name not in registry.checkpoints:
        check_alias(name, registry)
        name = aliases[name]
    return name


def check_alias(name: str, registry: Registry) -> None:
    """Make sure that a name is not an alias with the name of a model or an architecture.

    Raises:
        ConfigError: it is.
    """
    if name not in _aliases() or name in registry.checkpoints:
        return
    if name in registry.models or name in registry.architectures:
        kind = "a model" if name in registry.models else "an architecture"
        what = f"alias {name} of {settings_file()} is the name of {kind}"
        raise ConfigError(what, "", "Rename the alias")


def _aliases() -> Mapping[str, str]:
    """Return the aliases of the settings of the running command."""
    context = click.get_current_context(silent=True)
    settings = context.find_root().obj if context is not None else None
    return settings.aliases if isinstance(settings, Settings) else {}


def _read_aliases(entries: Mapping[str, Any], settings: Settings) -> list[str]:
    faults = []
    for name, checkpoint in entries.items():
        if not NAME.fullmatch(name):
            faults.append(f"{name[:100]!r} is not a valid name")
        elif not isinstance(checkpoint, str) or not checkpoint:
            faults.append(f"alias {name} must name a checkpoint, in quotes")
        else:
            settings.aliases[name] = checkpoint
    return (
        faults
        + [
            f"alias {name} stands for itself"
            for name in settings.aliases
            if _is_circular(name, settings)
        ][:LISTED]
    )


def _is_circular(name: str, settings: Settings) -> bool:
    """Return whether an alias stands for others without an end."""
    seen = set()
    while name in settings.aliases and name not in seen:
        seen.add(name)
        name = settings.aliases[name]
    return name in seen


def _read_defaults(
    entries: Mapping[str, Any], commands: Mapping[str, click.Command], settings: Settings
) -> list[str]:
    faults = []
    for name, values in entries.items():
        if name not in commands:
            faults.append(_unknown("command", name, commands))
            if len(faults) > LISTED:
                return [*faults, "and more"]
        elif not isinstance(values, dict):
            faults.append(f"[defaults.{name}] must be a table")
        else:
            faults += _read_options(commands[name], name, values, settings)
    return faults


def _read_options(
    command: click.Command, name: str, values: Mapping[str, Any], settings: Settings
) -> list[str]:
    options = {
        flag.lstrip("-"): option
        for option in command.params
        if isinstance(option, click.Option) and option.expose_value
        for flag in (*option.opts, *option.secondary_opts)
        if flag.startswith("--")
    }
    faults = []
    for key, value in values.items():
        option = options.get(key.replace("_", "-"))
        if option is None or option.name is None:
            faults.append(_unknown(f"option of {name}", key, options))
            if len(faults) == LISTED:
                return [*faults, "and more"]
            continue
        if key.replace("_", "-") in {flag.lstrip("-") for flag in option.secondary_opts}:
            faults.append(f"{name}: write {option.name} = false instead of {key}")
            continue
        try:
            if option.is_flag != isinstance(value, bool):
                raise click.BadParameter("true or false" if option.is_flag else "not a boolean")
            option.type_cast_value(click.Context(command), value)
        except OverflowError:  # infinity, where a whole number is expected
            faults.append(f"{name}: {key} = {value!r} is too large")
        except click.BadParameter as error:
            faults.append(f"{name}: {key} = {str(value)[:100]!r}: {error.message}")
        else:
            settings.defaults.setdefault(name, {})[option.name] = value
    return faults


def _unknown(kind: str, name: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    return f"unknown {kind} {name[:100]!r}{in_brackets(did_you_mean(name, known, 1))}"
