"""Regular expressions of tokenizers that end in time: an allowed list, and a check of the others.

The library's engine backtracks. A quantifier or alternatives inside a repeated group, or many
unbounded quantifiers in a row, can take time that grows exponentially, or with a high power, in the
text.
"""

from __future__ import annotations

import re

from zoo.data.tokenizer_kinds import CHARACTER, WORD, WORD_BEFORE

LENGTH_LIMIT = 1000
"""Most characters of an expression."""

REPEAT_LIMIT = 1000
"""The largest number in braces."""

UNBOUNDED_LIMIT = 2
"""Most unbounded quantifiers in one alternative: the time is at most quadratic in the text."""

KNOWN = frozenset({WORD, WORD_BEFORE, CHARACTER})
"""Expressions that the rules below would refuse, and that are known to end in time."""

_GROUP = re.compile(r"\((?:\?(?:[:=!>]|<[=!]|[imsx]{1,4}:))?")
_QUANTIFIER = re.compile(r"(?:([*+?])|\{(\d{0,6})(,?)(\d{0,6})\})[?+]?")


def fault_of_regex(pattern: str) -> str:
    """Return why an expression is refused; empty if it ends in time."""
    if pattern in KNOWN:
        return ""
    if len(pattern) > LENGTH_LIMIT:
        return f"it has over {LENGTH_LIMIT:,} characters"
    return _Scanner(pattern).fault()


class _Scanner:
    """Reads an expression from the left; `open` has, for each open group, its quantifiers."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.index = pattern, 0
        self.open: list[_Group] = [_Group()]

    def fault(self) -> str:
        """Return the first fault; empty if there is none."""
        while self.index < len(self.pattern):
            fault = self._next()
            if fault:
                return f"{fault} at character {self.index + 1}"
        return "" if len(self.open) == 1 else "a group is not closed"

    def _next(self) -> str:
        character = self.pattern[self.index]
        if character == "|":
            self.open[-1].end_alternative()
            self.open[-1].ambiguous = True
            self.index += 1
            return ""
        if character == "(":
            return self._open_group()
        inner: _Group | None = None
        if character == ")":
            if len(self.open) == 1:
                return "a group is closed that was not opened"
            inner = self.open.pop()
            inner.end_alternative()
            fault = self.open[-1].add(inner.most, ambiguous=inner.ambiguous)
            if fault:
                return fault
            self.index += 1
        elif character == "[":
            fault = self._skip_class()
            if fault:
                return fault
        elif character == "\\":
            following = self.pattern[self.index + 1 : self.index + 2]
            if not following or following.isdigit() or following in "gkKRXG":
                return "a reference or an unknown escape"
            self.index += 2
        elif _QUANTIFIER.match(self.pattern, self.index) and character != "{":
            return "a quantifier has nothing to repeat"
        else:
            self.index += 1
        return self._quantify(inner)

    def _open_group(self) -> str:
        match = _GROUP.match(self.pattern, self.index)
        if match is None or self.pattern[match.end() : match.end() + 1] in ("?", "*"):
            return "an unknown kind of group"
        self.open.append(_Group())
        self.index = match.end()
        return "" if len(self.open) <= 20 else "groups are nested too deeply"

    def _skip_class(self) -> str:
        """Move behind a class of characters; classes may be nested."""
        depth = 0
        while self.index < len(self.pattern):
            character = self.pattern[self.index]
            self.index += 2 if character == "\\" else 1
            if character == "[":
                depth += 1
                after = self.pattern[self.index : self.index + 2].removeprefix("^")
                if after.startswith("]"):
                    return "a class of characters begins with a bracket"
                if depth > 5:
                    return "classes of characters are nested too deeply"
            elif character == "]":
                depth -= 1
                if depth == 0:
                    return ""
        return "a class of characters is not closed"

    def _quantify(self, inner: _Group | None) -> str:
        """Read a quantifier after an atom, if there is one; `inner` is the group before it."""
        match = _QUANTIFIER.match(self.pattern, self.index)
        if match is None:
            return ""
        self.index = match.end()
        kind, least, comma, most = match.groups()
        largest = max(int(least or 0), int(most or 0))
        if largest > REPEAT_LIMIT:
            return f"a repetition of over {REPEAT_LIMIT:,}"
        if _QUANTIFIER.match(self.pattern, self.index):
            return "a quantifier follows a quantifier"
        if inner is not None and inner.ambiguous and kind != "?":
            return "a quantifier or an alternative is inside a repeated group"
        unbounded = kind in ("*", "+") or largest > 9 or bool(comma and not most)
        return self.open[-1].add(int(unbounded), ambiguous=True)


class _Group:
    """What an open group contains so far.

    `ambiguous` says whether it has quantifiers or alternatives, so that it may match a text in
    several ways; `unbounded` counts quantifiers without a bound in this alternative, and `most` is
    the largest such count of an alternative.
    """

    def __init__(self) -> None:
        self.ambiguous = False
        self.unbounded = self.most = 0

    def end_alternative(self) -> None:
        """Begin to count again."""
        self.most, self.unbounded = max(self.most, self.unbounded), 0

    def add(self, unbounded: int, *, ambiguous: bool) -> str:
        """Count the quantifiers of an atom or of a group that ends; return a fault."""
        self.ambiguous = self.ambiguous or ambiguous
        self.unbounded += unbounded
        if self.unbounded > UNBOUNDED_LIMIT:
            return f"over {UNBOUNDED_LIMIT} unbounded quantifiers in one alternative"
        return ""
