"""pytest's option `--zoo-architecture`. pytest loads this module every time: keep it light."""

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
        help="with --pyargs zoo.testing: run the zoo's laws on this architecture; repeatable",
    )
