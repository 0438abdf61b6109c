"""An external plugin and the zoo's wheel, from installation to removal."""

from pathlib import Path

from tests.external_plugins.journey import Environment, journey


def test_an_external_plugin_from_install_to_uninstall(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    environment = Environment.borrowed(tmp_path / "environment")
    journey(environment, wheels["seq2seq_zoo"], ("--steps", "3", "--limit", "100"), scored=20)
