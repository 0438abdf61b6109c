"""The security page states the limits that hold."""

import importlib
import re
from pathlib import Path

from zoo.hub.retry import RetryPolicy
from zoo.hub.settings import Settings
from zoo.translation.parts import MAX_SOURCE_LENGTH

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "security.md").read_text(encoding="utf-8")
OTHERS = {
    "--max-source-length": MAX_SOURCE_LENGTH,
    "ZOO_HUB_TIMEOUT": Settings.timeout,
    "ZOO_HUB_TRIES": RetryPolicy.tries,
    "ZOO_HUB_LONGEST_WAIT": RetryPolicy.longest_wait,
}


def test_every_limit_is_the_one_that_holds() -> None:
    table = PAGE.partition("## Limits")[2].partition("## ")[0]
    rows = re.findall(r"^\| .* \| ([\d,]+) \| `([^`]+)` \|$", table, re.MULTILINE)
    assert len(rows) > 15
    for value, setting in rows:
        module, _, name = setting.rpartition(".")
        holds = (
            OTHERS[setting] if setting in OTHERS else getattr(importlib.import_module(module), name)
        )
        assert int(value.replace(",", "")) == holds, setting


def test_every_campaign_is_listed() -> None:
    for name in re.findall(r"^\| `(\w+\.py)` \|", PAGE, re.MULTILINE):
        assert (TOP / "tests" / "campaigns" / name).is_file()
    assert "Reporting a vulnerability" in (TOP / "SECURITY.md").read_text(encoding="utf-8")
