"""A plugin that is a distribution of its own, beside the zoo's wheel, from install to uninstall."""

from pathlib import Path

import pytest

from tests.road.journey import Environment, build_wheel, journey


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_a_stranger_s_plugin_goes_the_whole_way(wheel: Path, tmp_path: Path) -> None:
    there = Environment.borrowed(tmp_path / "there")
    train = ("--steps", "20", "--limit", "500")
    journey(there, wheel, train)
