"""Formulas as MathML, made when the pages are built, so that browsers need no script."""

from typing import Any

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

CONVERTER = LatexToMathML()


def mathml(node: nodes.Node, block: bool) -> str:
    """Return a formula's MathML; a formula that cannot be read is a warning."""
    try:
        return CONVERTER.convert_with_local_state(node.astext(), displaystyle=block)
    except LatexError as error:
        getLogger(__name__).warning("formula %r: %s", node.astext(), error, location=node)
        return ""


def visit_math(writer: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    writer.body.append(mathml(node, False))
    raise nodes.SkipNode


def visit_math_block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own, which scrolls within itself if it is too wide."""
    writer.body.append(f'<div class="formula" tabindex="0">{mathml(node, True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the converter."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
