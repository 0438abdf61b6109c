"""`zoo attention`: the exact weights in every form, and one line for each error."""

import base64
import html.parser
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import pytest
import torch
from click.testing import Result
from torch import Tensor

import zoo
from tests.cli.test_cli import failed
from tests.core.test_checkpoint import TINY

Run = Callable[..., Result]
TEXT, TARGET = "the dog a </script><b>", "der Hund & rennt $x$ $y$"
KINDS = {"rnnsearch-tiny": ["cross"], "convs2s-tiny": ["cross"],
         "transformer-tiny": ["cross", "encoder", "decoder"]}  # fmt: skip


def train(name: str, folder: Path) -> Path:
    lines = (f"the dog {n} </script><b> runs\tder Hund {n} $ & rennt\n" for n in "abcdxybcript")
    (folder / "a.tsv").write_text("".join(lines))
    return zoo.train(name, str(folder / "a.tsv"), folder / name, settings=TINY[name], steps=2)


@pytest.fixture(scope="module", params=sorted(KINDS))
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(request.param, tmp_path_factory.mktemp("attention"))


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train("transformer-tiny", tmp_path_factory.mktemp("attention"))


def weights(folder: Path, text: str, target: str) -> dict[str, Tensor]:
    """Return the attention weights of one forward pass, without the command."""
    checkpoint = zoo.load(folder).checkpoint
    source = torch.tensor([[*checkpoint.source_tokenizer.encode([text])[0], 2]])
    target_ids = torch.tensor([[1, *checkpoint.target_tokenizer.encode([target])[0]]])
    with torch.inference_mode():
        kinds = checkpoint.model(source, source != 0, target_ids, attention=True).attention
    return {kind: values[0] for kind, values in kinds.items()}


def embedded(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def test_json_has_the_exact_weights_of_every_layer_and_head(run: Run, checkpoint: Path) -> None:
    printed = json.loads(run("attention", checkpoint, TEXT, "--target", TARGET, "--json").stdout)
    expected = weights(checkpoint, TEXT, TARGET)
    assert list(printed["kinds"]) == KINDS[checkpoint.name]
    count = 0
    for panel in printed["panels"]:
        tensor = expected[panel["kind"]]
        count += 1
        torch.testing.assert_close(torch.tensor(panel["weights"]),
                                   tensor[panel["layer"] - 1, panel["head"] - 1])  # fmt: skip
        shape = [len(printed["kinds"][panel["kind"]][side]) for side in ("queries", "keys")]
        assert list(tensor.shape[2:]) == shape
    assert count == sum(tensor.shape[0] * tensor.shape[1] for tensor in expected.values())
    chosen = ("--kind", "cross", "--layer", "mean", "--head", 1)
    printed = json.loads(
        run("attention", checkpoint, TEXT, "--target", TARGET, "--json", *chosen).stdout
    )
    (panel,) = printed["panels"]
    torch.testing.assert_close(torch.tensor(panel["weights"]), expected["cross"].mean(0)[0])


def test_without_a_target_the_greedy_translation_is_used(run: Run, checkpoint: Path) -> None:
    printed = json.loads(run("attention", checkpoint, TEXT, "--json").stdout)
    loaded = zoo.load(checkpoint)
    (hypothesis,) = next(loaded.stream([TEXT])).hypotheses
    assert printed["target"] == [
        loaded.checkpoint.target_tokenizer.token(i) for i in hypothesis.tokens
    ]


class Reader(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_is_self_contained_and_exact(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    arguments = ("attention", checkpoint, TEXT, "--target", TARGET, "--out")
    assert run(*arguments, tmp_path / "a.html").exit_code == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    data, expected = embedded(page), weights(checkpoint, TEXT, TARGET)
    assert list(data["kinds"]) == KINDS[checkpoint.name]
    for kind, entry in data["kinds"].items():
        content = bytearray(base64.b64decode(entry["weights"]))
        values = torch.frombuffer(content, dtype=torch.float32)
        sizes = (entry["layers"], entry["heads"], len(entry["queries"]), len(entry["keys"]))
        torch.testing.assert_close(values.view(sizes), expected[kind])
    assert "</script><b>" in "".join(data["kinds"]["cross"]["keys"])
    reader = Reader()
    reader.feed(page)
    assert [tag for tag, _ in reader.tags].count("script") == 2
    assert "b" not in {tag for tag, _ in reader.tags}
    assert not {name for _, attributes in reader.tags for name in attributes} & {"src", "href"}
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|url\(|@import|fetch|import\(", page)
    assert [f.name for f in tmp_path.iterdir()] == ["a.html"]


def test_pictures(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    arguments = ("attention", checkpoint, TEXT, "--target", TARGET, "--out")
    for name in ("a.png", "a.SVG"):
        result = run(*arguments, tmp_path / name)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    tree = ElementTree.parse(tmp_path / "a.SVG")
    written = [e.text or "" for e in tree.iter() if e.tag.endswith("}text")]
    tensors = weights(checkpoint, TEXT, TARGET).values()
    assert sum("maximum" in text for text in written) == sum(t.shape[0] for t in tensors)
    assert not any("▁" in text for text in written)
    assert any(text.startswith("→ der Hund") for text in written)
    assert run(*arguments, tmp_path / "all.svg", "--head", "all").exit_code == 0
    heads = ElementTree.parse(tmp_path / "all.svg").iter()
    panels = sum(tensor.shape[0] * tensor.shape[1] for tensor in tensors)
    assert len([e for e in heads if e.tag.endswith("}image")]) == panels
    assert any("$" in text for text in written), "a dollar sign must not start a formula"


def test_unusual_characters_can_be_drawn(run: Run, transformer: Path, tmp_path: Path) -> None:
    unusual = ("漢\x01\x1b[2J字", "--target", "\u202b🙂\ufffe a\nb")
    for suffix in ("png", "svg", "html"):
        result = run("attention", transformer, *unusual, "--out", tmp_path / f"a.{suffix}")
        assert result.exit_code == 0, result.output
    ElementTree.parse(tmp_path / "a.svg")
    shown = run("attention", transformer, *unusual)
    assert shown.exit_code == 0
    assert "\x1b" not in shown.stdout


def test_characters_that_no_font_has_are_noted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are boxes in a PNG; a page or an SVG is drawn with the fonts of its reader."""
    manager = pytest.importorskip("matplotlib.font_manager").fontManager
    own = [font for font in manager.ttflist if font.name.startswith("DejaVu")]
    monkeypatch.setattr(manager, "ttflist", own)
    (tmp_path / "a.tsv").write_text("the หมา\tder\n" * 12, encoding="utf-8")
    folder = zoo.train(
        "rnnsearch-tiny", tmp_path / "a.tsv", tmp_path / "a", settings=TINY["rnnsearch-tiny"],
        steps=1,
    )  # fmt: skip
    arguments = ("attention", folder, "--target", "der")
    result = run(*arguments, "the หมา", "--out", tmp_path / "a.png")
    assert "no installed font has 'ม': 3 characters of the sentences" in result.stderr
    for text, name in (("the หมา", "a.svg"), ("the", "b.png")):
        assert "Note" not in run(*arguments, text, "--out", tmp_path / name).stderr


def test_the_terminal_shows_the_mean_of_cross_attention(run: Run, checkpoint: Path) -> None:
    shown = run("attention", checkpoint, TEXT, "--target", TARGET).stdout
    mean = weights(checkpoint, TEXT, TARGET)["cross"].mean((0, 1))
    assert "cross, mean over layers, mean over heads" in shown
    rows = re.findall(r" (\d\.\d\d) \S", shown)
    assert rows[-len(mean) :] == [f"{row.max():.2f}" for row in mean]
    all_layers = run("attention", checkpoint, TEXT, "--layer", "all", "--head", 1).stdout
    layers = len(weights(checkpoint, TEXT, TARGET)["cross"])
    assert all_layers.count("maximum") == layers


def test_columns_that_do_not_fit_are_printed_below() -> None:
    from rich.console import Console

    from zoo.cli.heatmap import print_heatmap
    from zoo.translation.attention import Attention

    weights = torch.rand(1, 1, 3, 101)
    attention = Attention("m", [f"k{i}" for i in range(100)], ["漢字", "x"], {"cross": weights})
    colors: list[Literal["truecolor"] | None] = [None, "truecolor"]
    for color in colors:
        screen = Console(width=60, record=True, file=io.StringIO(), color_system=color)
        print_heatmap(screen, attention, attention.panels()[0])
        lines = screen.export_text().splitlines()
        assert len(lines) > 12
        assert all(len(line) <= 60 for line in lines[1:])


def test_errors_are_one_line(run: Run, transformer: Path, tmp_path: Path) -> None:
    def attempt(*more: object, text: str = TEXT) -> Result:
        return run("attention", transformer, text, *more)

    failed(attempt("--kind", "croos"), "no attention of kind 'croos'", "cross, encoder, decoder")
    for wrong in (0, 99, -1):
        failed(attempt("--layer", wrong), f"no layer {wrong}", "layers")
        failed(attempt("--head", wrong), f"no head {wrong}", "2 heads")
    failed(attempt("--layer", "first"), "no layer 'first'", "mean or all")
    for name in ("a.pdf", "a", "png"):
        failed(attempt("--out", tmp_path / name), ".png, .svg or .html")
    (tmp_path / "f.png").mkdir()
    failed(attempt("--out", tmp_path / "f.png"), "it is a folder")
    failed(attempt("--kind", "no", "--out", tmp_path / "none" / "a.png"), "no attention of kind")
    failed(attempt(text=" "), "the text is empty")
    failed(attempt("--target", "a\udcff"), "is not UTF-8: set the terminal")
    assert [f.name for f in tmp_path.iterdir()] == ["f.png"]


def test_recommended_options_give_way_to_those_given(run: Run, tmp_path: Path) -> None:
    folder = train("rnnsearch-tiny", tmp_path)
    about = '--about=decoding={"beam": 3, "length_penalty": 0.8}'
    assert run("card", folder, "--write", about).exit_code == 0
    for given in (["--beam", 1], ["--sample", "--seed", 4], ["--search", "greedy"], []):
        result = run("attention", folder, TEXT, *given)
        assert result.exit_code == 0, result.output
    failed(run("attention", folder, TEXT, "--length-penalty", 0.7, "--beam", 1), "change nothing")
    assert run("attention", folder, TEXT, "--beam", 3, "--n-best", 3).exit_code == 2
    failed(run("attention", folder, TEXT, "--target", TARGET, "--beam", 2), "beam cannot apply")


def test_a_text_that_translation_reads_in_parts_is_noted(run: Run) -> None:
    checkpoint = "transformer-tiny.tatoeba-en-fr-76k"
    clauses = "I like music, and she likes tea, and we are not alone, "
    clauses += "and they want to go home before the night begins."
    for text, parts in (("I like tea.", 1), ("I like tea. We go home.", 2), (clauses, 2)):
        result = run("attention", checkpoint, text, "--json")
        assert json.loads(result.stdout)["parts"] == parts
        assert (f"Note: the text is read whole here. `zoo translate` reads it in {parts} parts"
                in result.stderr) == (parts > 1)  # fmt: skip
        assert "Note: the text is read as it is" not in result.stderr
    result = run("attention", checkpoint, "I LIKE TEA.", "--json")
    assert json.loads(result.stdout)["respelled"]
    assert "Note: the text is read as it is here. `zoo translate` reads capitals" in result.stderr
    failed(run("attention", checkpoint, "I go.", "--target", "Je pars.", "--no-recommended"),
           "recommended cannot apply")  # fmt: skip


def test_no_attention_and_too_long(run: Run, tmp_path: Path) -> None:
    folder = train("seq2seq-tiny", tmp_path)
    failed(run("attention", folder, "the dog"), "seq2seq-tiny has no attention")
    folder = train("convs2s-tiny", tmp_path)
    failed(run("attention", folder, "a", "--target", "a " * 99), "the target is too long", "40")


def test_a_file_is_replaced_whole_or_not_at_all(
    run: Run, transformer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "a.html").write_text("before")
    monkeypatch.setattr("os.fsync", full)
    failed(run("attention", transformer, TEXT, "--out", tmp_path / "a.html"), "No space left")
    assert (tmp_path / "a.html").read_text() == "before"
    assert [f.name for f in tmp_path.iterdir()] == ["a.html"]


def test_titles_fit_the_figure() -> None:
    """Titles fit even if a panel has few tokens."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from zoo.translation.attention import Attention
    from zoo.translation.attention_picture import lay_out

    weights = torch.softmax(torch.ones(2, 2, 3, 3), -1)
    attention = Attention("x", ["a", "b"], ["c", "d"], {"decoder": weights})
    for layer, head in (("all", "mean"), ("mean", "all"), ("mean", "mean")):
        figure = Figure()
        canvas = FigureCanvasAgg(figure)
        lay_out(figure, attention, attention.panels("decoder", layer, head))  # type: ignore[arg-type]  # mypy widens the words
        canvas.draw()
        for axes in figure.axes:
            title = axes._left_title  # type: ignore[attr-defined]  # where loc="left" is
            assert title.get_text()
            assert title.get_window_extent().x1 <= figure.bbox.x1
