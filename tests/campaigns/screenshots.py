"""Take screenshots of the page: every view, three widths, both themes.

python -m tests.campaigns.screenshots --out shots
"""

import argparse
from pathlib import Path
from urllib.parse import urlencode

from tests.serving.browser import browser
from tests.serving.client import start

CAPTIONS = ("transformer-tiny", "rnnsearch-tiny", "convs2s-tiny", "seq2seq-tiny")
VIEWS = ("translate", "attention", "search", "compare", "model")
WIDTHS = (390, 1280, 1920)
TEXT = "A man in a blue shirt is standing on a ladder cleaning a window."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--views", nargs="*", default=VIEWS)
    parser.add_argument("--widths", nargs="*", type=int, default=WIDTHS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = [f"{name}.multi30k-en-de" for name in CAPTIONS]
    with start(*names) as server, browser() as page:
        for view in arguments.views:
            for theme in ("light", "dark"):
                for width in arguments.widths:
                    page.size(width, 844 if width < 600 else 900, theme)
                    state = {"view": view, "checkpoint": names[0], "text": TEXT, "beam": 4}
                    page.open(f"{server.url}/#{urlencode(state)}")
                    page.picture(str(arguments.out / f"{view}-{width}-{theme}.png"))
        print("\n".join(page.console()) or "no message in the console")


if __name__ == "__main__":
    main()
