"""An external plugin and the zoo's wheel, from installation to removal."""

from pathlib import Path

import pytest

from tests.external_plugins.journey import Environment, build_wheel, journey


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_an_external_plugin_from_install_to_uninstall(wheel: Path, tmp_path: Path) -> None:
    environment = Environment.borrowed(tmp_path / "environment")
    train = ("--steps", "20", "--limit", "500")
    journey(environment, wheel, train)
