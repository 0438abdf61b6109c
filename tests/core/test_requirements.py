"""The ranges of the dependencies agree with the versions that the tests are run with."""

import re
import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

TOP = Path(__file__).parents[2]

OF_DEVELOPERS = ("all", "docs", "test")
"""Extras that `make test-lowest` does not install in their lowest versions, and their union."""


def pinned(file: str) -> dict[str, Version]:
    lines = re.findall(r"^([\w-]+)==(\S+)$", (TOP / file).read_text(encoding="utf-8"), re.MULTILINE)
    return {name.lower(): Version(version) for name, version in lines}


def test_both_ends_of_each_range_are_pinned() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest, latest = pinned("constraints-lowest.txt"), pinned("constraints.txt")
    extras = project["optional-dependencies"]
    of_users = [texts for name, texts in extras.items() if name not in OF_DEVELOPERS]
    for text in chain(project["dependencies"], *of_users):
        requirement = Requirement(text)
        (bound,) = (Version(s.version) for s in requirement.specifier if s.operator == ">=")
        name = requirement.name.lower()
        assert lowest[name] == bound, text
        assert latest[name] in requirement.specifier, text
        assert lowest[name] <= latest[name], text
