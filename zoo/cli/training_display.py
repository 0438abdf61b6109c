"""How `zoo train` shows a run: a progress bar in a terminal, lines elsewhere, or JSON."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from zoo.cli.output import messages, print_json, say, shows_progress
from zoo.registry.events import Event

if TYPE_CHECKING:
    from zoo.training.session import Session

Show = Callable[[Event], None]


def introduce(session: Session) -> None:
    """Print what is trained, on what data and how."""
    from zoo.training.progress import introduction

    for line in introduction(session):
        say(line)


@contextlib.contextmanager
def status(text: str) -> Iterator[None]:
    """Show a spinner in a terminal until the block ends."""
    if shows_progress():
        with messages().status(text):
            yield
    else:
        yield


@contextlib.contextmanager
def display(session: Session, as_json: bool) -> Iterator[Show]:
    """Give a function that shows an event. Only the first process shows anything."""
    from zoo.training.progress import progress

    if not session.trainer.group.is_first:
        yield lambda event: None
    elif as_json:
        yield lambda event: print_json(asdict(event), lines=True)
    else:
        with progress(session, messages(), shows_progress()) as show:
            yield show
