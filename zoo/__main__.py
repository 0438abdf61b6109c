"""The module that `python -m zoo` and the command `zoo` run."""

from __future__ import annotations

import signal


def main() -> None:
    """Run `zoo`; Ctrl-C while it is imported ends the process at once, without a traceback."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from zoo.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
