"""`zoo attention`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from zoo.cli.fetching import located
from zoo.cli.output import (
    console,
    json_option,
    names,
    print_json,
    say,
    writable,
)
from zoo.cli.search import search_options
from zoo.cli.translating import device_option
from zoo.data.readers import has_lone_surrogate
from zoo.errors import DataError
from zoo.files import replace_file

if TYPE_CHECKING:
    from zoo.translation.attention import Attention, Panel, Which
    from zoo.translation.translator import Translator

SUFFIXES = (".png", ".svg", ".html")


def _which(context: click.Context, option: click.Parameter, value: str | None) -> Which | None:
    """Return a layer's or a head's number, or the word in its place."""
    words: dict[str | None, Which | None] = {None: None, "mean": "mean", "all": "all"}
    if value in words:
        return words[value]
    try:
        return int(value or "")
    except ValueError:
        raise DataError(
            f"no {option.name} {value!r}", "it is a number from 1, mean or all"
        ) from None


@click.command()
@click.argument("checkpoint")
@click.argument("text")
@click.option("--target", help="A target to write, instead of the model's own translation.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE",
              help="Write a picture, .png or .svg, or a page to pick from, .html.")  # fmt: skip
@click.option("--kind", help="cross, encoder or decoder, of those that the model has.")
@click.option("--layer", callback=_which, metavar="N", help="A layer, mean or all.")
@click.option("--head", callback=_which, metavar="N", help="A head, mean or all.")
@search_options
@device_option
@json_option
def attention(
    checkpoint: str,
    text: str,
    target: str | None,
    out: Path | None,
    kind: str | None,
    layer: Which | None,
    head: Which | None,
    search: dict[str, Any],
    device: str,
    as_json: bool,
) -> None:
    """Show where CHECKPOINT looks while it translates TEXT.

    In the terminal: from target to source, the mean over layers and heads. A picture has every kind
    (cross; encoder, decoder: each within its own side), layer and head; a page lets its reader
    pick. --kind, --layer and --head say what to show, or to show first. Layers and heads count from
    1, the first layer being next to the embeddings.
    """
    suffix = "" if out is None else out.suffix.lower()
    if out is not None and suffix not in SUFFIXES:
        raise DataError(f"cannot draw {out}", "its name ends in none of .png, .svg and .html")
    for given, what in ((text, "the text"), (target or "", "the target")):
        if has_lone_surrogate(given):
            raise DataError(f"{what} is not UTF-8", "give it in the terminal's encoding")
    if out is not None:
        writable(out)
    found = names()
    from zoo.translation.translator import load

    translator = load(located(checkpoint, found), device=device, registry=found)
    seen = _look(translator, text, target, search)
    every: Literal["all", "mean"] = "all" if suffix in (".png", ".svg") or as_json else "mean"
    if kind is None and every == "mean":
        kind = next(iter(seen.weights))
    panels = seen.panels(kind, every if layer is None else layer, every if head is None else head)
    if out is not None:
        replace_file(out, _drawn(seen, panels, suffix))
        say(f"{out}: {''.join(seen.target).replace('▁', ' ').strip()}")
    if as_json:
        print_json(_record(checkpoint, seen, panels))
    elif out is None:
        from zoo.cli.shading import show

        for panel in panels:
            show(console(), seen, panel)


def _look(
    translator: Translator, text: str, target: str | None, search: dict[str, Any]
) -> Attention:
    """Return the attention of writing the target given, or what the model writes itself."""
    from zoo.translation.attention import attend

    checkpoint = translator.checkpoint
    if target is not None:
        return attend(checkpoint, text, checkpoint.target_tokenizer.encode([target])[0])
    found = next(translator.stream([text], **search)).hypotheses
    return attend(checkpoint, text, found[0].tokens if found else ())


def _drawn(seen: Attention, panels: list[Panel], suffix: str) -> bytes:
    if suffix == ".html":
        from zoo.translation.attention_page import page

        return page(seen, panels[0]).encode()
    from zoo.translation.attention_picture import draw

    return draw(seen, panels, suffix[1:])


def _record(checkpoint: str, seen: Attention, panels: list[Panel]) -> dict[str, Any]:
    """Return what is shown as plain values; rows are queries, columns keys."""
    kinds = dict.fromkeys(panel.kind for panel in panels)
    return {
        "checkpoint": checkpoint,
        "source": seen.source,
        "target": seen.target,
        "kinds": {
            kind: {
                "layers": seen.weights[kind].shape[0],
                "heads": seen.weights[kind].shape[1],
                "queries": seen.queries(kind),
                "keys": seen.keys(kind),
            }
            for kind in kinds
        },
        "panels": [
            {
                "kind": panel.kind,
                "layer": panel.layer,
                "head": panel.head,
                "weights": panel.weights.tolist(),
            }
            for panel in panels
        ],
    }
