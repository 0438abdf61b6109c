"""A checkpoint for many tasks, which is for research and education only.

In the repository they are listed by its `registry.toml`, and this plugin adds nothing.
"""

from collections.abc import Iterable
from pathlib import Path

from zoo import hookimpl

ZOO_API = 2


@hookimpl
def zoo_catalogues() -> Iterable[Path]:
    """Return the catalogue, which is written when the wheel is built."""
    catalogue = Path(__file__).with_name("registry.toml")
    return [catalogue] if catalogue.is_file() else []
