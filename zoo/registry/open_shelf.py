"""An open shelf: entries by name, whose objects are imported, checked and called on first use."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from zoo.errors import FAILURES, ConfigError, PluginError, ZooError, did_you_mean
from zoo.registry.entries import Entry
from zoo.registry.shelf import Shelf

if TYPE_CHECKING:
    from zoo.registry.config import Settings

E = TypeVar("E", bound=Entry)

LONGEST = 1000
"""The most characters of an entry's name with its options, as one text."""

Named = str | Mapping[str, Any]
"""An entry's name, or a table with its `name` and its options."""


_NAMED = re.compile(r"[A-Za-z0-9][\w.+-]*(:[A-Za-z_]\w*=.*)?", re.DOTALL)
_COMMA = re.compile(r",(?=[A-Za-z_]\w*=)")


def parse_named(text: str) -> dict[str, Any]:
    """Return the table that `NAME` or `NAME:option=value,option=value` stands for.

    A value that is not JSON is a string.

    Raises:
        ValueError: the text has another form.
    """
    if len(text) > LONGEST or not _NAMED.fullmatch(text):
        raise ValueError("NAME or NAME:option=value,option=value")
    name, _, rest = text.partition(":")
    table: dict[str, Any] = {"name": name}
    for part in _COMMA.split(rest) if rest else ():
        key, _, value = part.partition("=")
        try:
            table[key] = json.loads(value)
        except (ValueError, RecursionError):
            table[key] = value
    return table


def name_of(named: Named) -> str:
    """Return the name of an entry that a recipe names."""
    return named if isinstance(named, str) else str(named.get("name", ""))


class BrokenEntryError(PluginError):
    """An entry of an open shelf that does not work."""


class OpenShelf(Shelf[E]):
    """Entries of one kind, to which plugins add theirs by a hook.

    A broken entry blocks nothing until it is used; the error then names its plugin.
    """

    def __init__(self, declaration: type[E]) -> None:
        super().__init__(declaration.kind, plural=declaration.plural)
        self.declaration = declaration
        self._types: dict[str, type[Settings]] = {}
        """The type of the options of each entry that was used: it takes a millisecond to make."""

    def options(self, named: Named) -> dict[str, Any]:
        """Return the checked options of an entry that is named with them.

        Raises:
            UnknownNameError: there is no entry of that name.
            PluginError: the entry cannot be imported, or its signature does not fit its kind.
            ConfigError: options are unknown, missing or of the wrong type; it lists all of them.
        """
        from zoo.registry.options import checked_options

        entry = self.find(name_of(named))
        types = self._option_types(entry)
        values = {} if isinstance(named, str) else named
        values = {key: value for key, value in values.items() if key != "name"}
        try:
            options = checked_options(types, values, f"{self.kind} {entry.name!r}")
        except ConfigError as error:
            see = f"See `zoo list {self.plural} {entry.name}`"
            raise ConfigError(error.what, error.why, see) from None
        return {key: value for key, value in options.items() if key not in entry.numbers}

    def described(self, name: str) -> list[dict[str, Any]]:
        """Return the options of an entry: `name`, `type`, `required` and `default` of each.

        Raises:
            UnknownNameError, PluginError: as `options`.
        """
        from zoo.registry.options import described_options

        types = self._option_types(self.find(name))
        with self.blaming(name):
            return described_options(types)

    def _option_types(self, entry: E) -> type[Settings]:
        """Return the type of an entry's options.

        Raises:
            PluginError: as `options`.
        """
        from zoo.registry.options import option_types

        if entry.name not in self._types:
            with self.blaming(entry.name):
                types = option_types(entry.load(), entry.given, entry.numbers)
            self._types[entry.name] = types
        return self._types[entry.name]

    def faults(self, key: str, named: object) -> list[str]:
        """Return what is wrong with the value of a recipe's key that names an entry."""
        if isinstance(named, Mapping) and not isinstance(named.get("name"), str):
            return [f"{key} = {dict(named)!r} (a table needs a name)"]
        if not isinstance(named, str | Mapping):
            return []  # the recipe's own check reports it
        name = name_of(named)
        if name not in self:
            hint = did_you_mean(name, self) or f"known: {', '.join(self)}"
            with contextlib.suppress(ValueError):
                if (table := parse_named(name))["name"] in self:  # as `zoo translate` reads it
                    hint = f"options are in a table: {json.dumps(table)}"
            return [f"{key} = {name!r} ({hint})"]
        try:
            self.options(named)
        except ConfigError as error:
            hint = f"{error.next[:1].lower()}{error.next[1:]}"
            if isinstance(named, str):
                needed = {o["name"]: "…" for o in self.described(name) if o["required"]}
                written = json.dumps({"name": name, **needed}, ensure_ascii=False)
                hint = f"in a table: {written}; {hint}"
            return [f"{key}: {error.what}: {error.why} ({hint})"]
        return []

    def make(self, named: Named, *given: Any) -> Any:
        """Call an entry's object with what its kind gives and with its options.

        Raises:
            UnknownNameError, ConfigError: as `options`.
            PluginError: the entry is broken, or it raises.
        """
        options, name = self.options(named), name_of(named)
        with self.blaming(name):
            return self[name].load()(*given, **options)

    def broken(self, name: str, reason: str) -> PluginError:
        """Return the error that an entry is broken, with its plugin and the reason."""
        return BrokenEntryError(
            f"{self.kind} {name!r} of {self.owner(name)} is broken",
            " ".join(reason.split()),
            "Report this to its author, or name another",
        )

    @contextlib.contextmanager
    def blaming(self, name: str) -> Iterator[None]:
        """Turn what an entry of a plugin raises in this block into an error that names it.

        Raises:
            PluginError: the entry raised something other than a message for the user.
        """
        try:
            yield
        except BrokenEntryError:
            raise  # one that this entry uses
        except PluginError as error:
            raise self.broken(name, error.why or str(error)) from error
        except ZooError:
            raise
        except FAILURES as error:
            if self.owner(name).builtin:
                raise
            reason = f"{self[name].path} raised {type(error).__name__}: {error}"
            raise self.broken(name, reason) from error
