"""HTML for LibreTranslate's API: tags stay as they are, however malformed."""

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")

from zoo.serving.markup import Markup


def shouted(source: str) -> str:
    """Return HTML with its texts in capitals."""
    made = Markup(source)
    return made.filled([text.upper() for text in made.texts])


@pytest.mark.parametrize(
    "source", ["<![x]>", "<![x>", "<![ ]>", "<![é", "<![<![<![", "<![CDATA[x]]>", "<![if x]>"]
)
def test_marked_sections_are_kept(source: str) -> None:
    assert shouted(source) == source
    assert shouted(f"<b>a</b> {source}") == f"<b>A</b> {source}"


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("Hi <![foo[bar]]> there", "HI <![foo[bar]]> THERE"),
        ("‹![é", "‹![É"),
        ("<svg><foreignObject>x</foreignObject></svg>", None),
        ("<P>x</P >", None),
        ("x</p foo>", None),
        ("x</#x>", None),
        ("x</>x", "X</>X"),
        ("<a b='x>y' c = \"<\">x</a>", None),
        ("<a b=\"c'd\">it's</a>", "<a b=\"c'd\">IT'S</a>"),
        ("<p don't>it's</p>", "<p don't>IT'S</p>"),
        ("<!--><b>x</b><!-- a --!>x<!-- > b", "<!--><b>X</b><!-- a --!>X<!-- > b"),
        ("<?php x ?><!doctype HTML>x", "<?php x ?><!doctype HTML>X"),
        ("x <b and c <i>x</i> <c", "X &lt;B AND C <i>X</i> &lt;C"),
        ("<SCRIPT>a<b></sCript >x<script/>x", "<SCRIPT>a<b></sCript >X<script/>X"),
        ("<style>a</styles>b", "<style>a</styles>b"),
        ("<pre>a&nbsp;<CODE>b</code>c</pre></pre>x", "<pre>a&nbsp;<CODE>b</code>c</pre></pre>X"),
    ],
)
def test_tags_are_kept_character_by_character(source: str, wanted: str | None) -> None:
    assert shouted(source) == (source.replace("x<", "X<") if wanted is None else wanted)


@pytest.mark.parametrize(
    "unit",
    [
        "<a ", "<a b='", "<a/", "<a \"='<a '=\"", "<![", "<![CDATA[", "<!--", "<!-- -", "<?", "</#",
        "<", "= ", "<script>", "</script ", "<script>x</script ", "<a b= ",
    ],
)  # fmt: skip
def test_hostile_html_is_read_in_linear_time(unit: str) -> None:
    """A hundred times the longest HTML of a request: its square would take hours."""
    made = Markup((unit * 1_000_000)[:1_000_000])
    assert len(made.filled(made.texts)) >= 900_000
