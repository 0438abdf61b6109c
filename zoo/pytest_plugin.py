"""The option `--zoo-architecture` of pytest, which loads this every time: nothing heavy here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("zoo").addoption(
        "--zoo-architecture",
        action="append",
        default=[],
        metavar="NAME",
        help="with --pyargs zoo.testing: the architecture to try the zoo's laws on; repeatable",
    )
