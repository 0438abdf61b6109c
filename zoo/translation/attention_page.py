"""The attention explorer as one self-contained HTML page; `zoo serve` shows the same explorer."""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path
from typing import Any

from zoo.translation.attention import Attention, Panel

TEMPLATE = Path(__file__).with_suffix(".html")
EXPLORER = Path(__file__).with_name("page")
"""The explorer's script and style."""


def explorer_kinds(attention: Attention) -> dict[str, Any]:
    """Return every kind as the explorer's script reads it.

    The weights are exact: little-endian float32 in base64.
    """
    return {
        kind: {
            **attention.describe(kind),
            "weights": base64.b64encode(weights.numpy().astype("<f4").tobytes()).decode(),
        }
        for kind, weights in attention.weights.items()
    }


def page(attention: Attention, first: Panel) -> str:
    """Return an HTML page of every kind, layer and head, which shows the panel `first` at first.

    A content security policy in the page forbids the browser to load anything.
    """
    data: dict[str, Any] = {
        "kinds": explorer_kinds(attention),
        "first": [first.kind, str(first.layer), str(first.head)],
    }
    script = (EXPLORER / "explorer.js").read_text(encoding="utf-8")
    parts = {
        "model": html.escape(attention.model),
        "style": (EXPLORER / "explorer.css").read_text(encoding="utf-8"),
        # No token can open or close a tag inside the data.
        "data": json.dumps(data, ensure_ascii=False)
        .replace("<", "\\u003c")
        .replace("&", "\\u0026"),
        "script": script.replace("export function", "function"),
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    return re.sub(r"\{(model|style|data|script)\}", lambda match: parts[match[1]], template)
