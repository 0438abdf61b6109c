"""The ranges of the dependencies agree with the versions that the tests are run with."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

TOP = Path(__file__).parents[2]


def pinned(file: str) -> dict[str, Version]:
    lines = re.findall(r"^([\w-]+)==(\S+)$", (TOP / file).read_text(encoding="utf-8"), re.MULTILINE)
    return {name.lower(): Version(version) for name, version in lines}


def test_both_ends_of_each_range_are_pinned() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest, latest = pinned("constraints-lowest.txt"), pinned("constraints.txt")
    # What other tests need beside the core: `make test-lowest` installs it.
    for text in (*project["dependencies"], *project["optional-dependencies"]["train"]):
        requirement = Requirement(text)
        (bound,) = (Version(s.version) for s in requirement.specifier if s.operator == ">=")
        name = requirement.name.lower()
        assert lowest[name] == bound, text
        assert latest[name] in requirement.specifier, text
        assert lowest[name] <= latest[name], text
