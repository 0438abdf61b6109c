"""`zoo compile-kernels`."""

from __future__ import annotations

import os

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


def note_outdated_kernels() -> None:
    """Say that the kernels have to be compiled again, as after an update of the zoo."""
    from zoo.nn import kernel_library

    is_first = os.environ.get("RANK", "0") == "0"  # of torchrun's processes
    if is_first and kernel_library.is_outdated():
        say(
            "Note: the compiled kernels are of another version of the zoo or for another "
            "processor, and are not used. Compile them again: zoo compile-kernels"
        )
