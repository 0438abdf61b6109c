"""`zoo compile-kernels`."""

from __future__ import annotations

import click

from zoo.cli.output import say


@click.command("compile-kernels")
def compile_kernels() -> None:
    """Compile optional kernels for this machine's CPU, which decode and train faster.

    The compiler is `cc`, or the one in CC. The library is kept in the folder `kernels` below
    ZOO_CACHE; later commands of this user load it.
    """
    from zoo.nn import kernels

    say(f"Compiled {kernels.compile_kernels()}")
