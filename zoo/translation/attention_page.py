"""Attention weights as one self-contained HTML page with menus of kinds, layers and heads."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

from zoo.translation.attention import KINDS, Attention, Panel

TEMPLATE = Path(__file__).with_suffix(".html")


def page(attention: Attention, first: Panel) -> str:
    """Return an HTML page of every kind, layer and head, which shows the panel `first` at first.

    The weights are exact: little-endian float32 in base64. A content security policy in the page
    forbids the browser to load anything.
    """
    data: dict[str, Any] = {
        "kinds": {
            kind: {
                "title": KINDS.get(kind, (kind,))[0],
                "axes": KINDS.get(kind, (kind, "query", "key"))[1:],
                "layers": weights.shape[0],
                "heads": weights.shape[1],
                "queries": attention.queries(kind),
                "keys": attention.keys(kind),
                "weights": base64.b64encode(weights.numpy().astype("<f4").tobytes()).decode(),
            }
            for kind, weights in attention.weights.items()
        },
        "first": [first.kind, str(first.layer), str(first.head)],
    }
    # No token can open or close a tag inside the data.
    safe = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c").replace("&", "\\u0026")
    before, after = TEMPLATE.read_text(encoding="utf-8").split("{data}")
    return before.replace("{model}", html.escape(attention.model)) + safe + after
