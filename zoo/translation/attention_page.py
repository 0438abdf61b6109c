"""Heatmaps as one HTML page that needs nothing else, and lets its reader pick."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

from zoo.translation.attention import KINDS, Attention, Panel

TEMPLATE = Path(__file__).with_name("page.html")


def page(attention: Attention, shown: Panel) -> str:
    """Return a page of every kind, layer and head, on which `shown` is seen first.

    Weights are in it as they are, little-endian float32 in base64. The page may load nothing, and
    says so to the browser.
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
        "shown": [shown.kind, str(shown.layer), str(shown.head)],
    }
    # No tag can end or begin inside the data, whatever the tokens.
    safe = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c").replace("&", "\\u0026")
    before, after = TEMPLATE.read_text(encoding="utf-8").split("{data}")
    return before.replace("{model}", html.escape(attention.model)) + safe + after
