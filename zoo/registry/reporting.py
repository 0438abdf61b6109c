"""Objects of plugins whose foreign exceptions and wrong results are errors of the zoo."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from zoo.errors import FAILURES, PluginError, ZooError

ADVICE = "Report this to its author"
CLASS = "its class"


class Reporting:
    """An object of a plugin; what it raises, and a result of a wrong type, names the plugin.

    Args:
        make: returns the object.
        what: the object's name in messages, with its plugin.
        kind: the class that it must be of.
        returns: the types that its attributes have, or its methods return, where they are used.
        error: the type of the error.
        passes: exceptions that are not turned into such an error, besides those of the zoo.
        made_by: the name of `make` in messages, unless it is the object's class.

    Raises:
        PluginError: the class is none of this kind.
    """

    def __init__(
        self,
        make: Callable[[], object],
        what: str,
        kind: type,
        returns: Mapping[str, tuple[type, ...]],
        *,
        error: type[ZooError] = PluginError,
        passes: tuple[type[BaseException], ...] = (),
        made_by: str = CLASS,
    ) -> None:
        self._what, self._returns, self._error = what, returns, error
        self._passes: tuple[type[BaseException], ...] = (ZooError, *passes)
        if made_by == CLASS and not (isinstance(make, type) and issubclass(make, kind)):
            raise PluginError(f"{what} is broken", f"{make!r} is no subclass of {kind.__name__}")
        self._object = self._call(made_by, make, (kind,))

    def __getattr__(self, name: str) -> Any:
        expected = self._returns.get(name, ())
        value = self._call(name, lambda: getattr(self._object, name), ())
        if not callable(value):
            return self._checked(name, value, expected)

        def method(*arguments: Any, **given: Any) -> Any:
            return self._call(name, lambda: value(*arguments, **given), expected)

        return method

    def broken(self, reason: str) -> ZooError:
        """Return the error that the object is broken, with the reason."""
        return self._error(f"{self._what} is broken", " ".join(reason.split()), ADVICE)

    def _call(self, name: str, function: Callable[[], Any], expected: tuple[type, ...]) -> Any:
        try:
            result = function()
        except self._passes:
            raise
        except FAILURES as error:
            raise self.broken(f"{name} raised {type(error).__name__}: {error}") from error
        return self._checked(name, result, expected)

    def _checked(self, name: str, result: Any, expected: tuple[type, ...]) -> Any:
        if expected and not isinstance(result, expected):
            names = " or ".join(kind.__name__ for kind in expected)
            raise self.broken(f"{name} returned {reprlib.repr(result)}, not {names}")
        return result
