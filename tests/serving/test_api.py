"""The API of a running server: the texts of `zoo translate`, everything typed, nothing lost."""

import asyncio
import json
import random
import re
import urllib.parse
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
import torch
from click.testing import Result

import zoo
from tests.serving.client import Running
from tests.serving.conftest import CAPTIONS, CARDS, LONG, NUMBERS, SEQ2SEQ
from zoo.serving.api import listed
from zoo.serving.markup import Markup
from zoo.serving.schema import (
    AttentionRequest,
    SearchRequest,
    StreamRequest,
    TranslateRequest,
    TreeRequest,
)
from zoo.serving.worker import written
from zoo.serving.workers import Worker

TEXTS = [
    "A man is riding a horse.",
    "two dogs",
    "A little girl in a pink dress climbs a set of stairs in an entry way.",
    "",
    "Several people sit around a table in the park, and one of them holds a red umbrella.",
    "Ein 日本 🙂 text",
]


def test_texts_equal_those_of_zoo_translate(server: Running, run: Callable[..., Result]) -> None:
    for checkpoint, options in ((CAPTIONS, {}), (CAPTIONS, {"beam": 4}), (SEQ2SEQ, {})):
        arguments = [part for k, v in options.items() for part in (f"--{k}", v)]
        command = run("translate", CARDS / checkpoint, *TEXTS, "--long-texts", "split", *arguments)
        assert server.translate(checkpoint, *TEXTS, **options) == command.stdout.split("\n")[:-1]


def test_texts_do_not_depend_on_what_shares_their_batch(server: Running) -> None:
    draw = random.Random(2)
    words = TEXTS[2].split() + TEXTS[4].split()
    texts = [" ".join(draw.choices(words, k=draw.randint(1, 20))) for _ in range(48)]
    translator = zoo.load(CARDS / CAPTIONS)
    alone = [translator.translate(text) for text in texts]
    before = server.metric("zoo_batch_texts_count")
    with ThreadPoolExecutor(32) as pool:
        together = list(pool.map(lambda text: server.translate(CAPTIONS, text)[0], texts))
    assert together == alone
    assert server.metric("zoo_batch_texts_count") - before < len(texts) * 0.7


def test_n_best_scores_tokens_alignment_and_prefix(server: Running) -> None:
    asked = {"checkpoint": CAPTIONS, "texts": TEXTS[:1], "beam": 4, "n_best": 3}
    more = {"token_scores": True, "alignment": True, "prefix": "Ein Mann"}
    (best,) = server.send("/api/translate", {**asked, **more}).json["translations"]
    translator = zoo.load(CARDS / CAPTIONS)
    expected = translator.translate(
        TEXTS[0], details=True, beam=4, n_best=3, alignment=True, prefix="Ein Mann"
    )
    several = [best, *best["alternatives"]]
    assert [one["text"] for one in several] == [o.text for o in (expected, *expected.alternatives)]
    around = {**asked, "texts": [f" {TEXTS[0]}\n\n"], "token_scores": True}
    (best,) = server.send("/api/translate", around).json["translations"]
    for one in (best, *best["alternatives"]):  # of the text as it was read
        assert sum(t["log_prob"] for t in one["tokens"]) == pytest.approx(one["score"], abs=1e-3)
    for one, wanted in zip(several, (expected, *expected.alternatives), strict=True):
        assert one["score"] == pytest.approx(wanted.score, abs=1e-3)
        assert sum(t["log_prob"] for t in one["tokens"]) == pytest.approx(one["score"], abs=1e-3)
        assert [tuple(pair) for pair in one["alignment"]] == list(wanted.alignment or ())
        assert one["text"].startswith("Ein Mann")


def test_the_tokens_of_a_text_in_parts_have_their_probabilities(server: Running) -> None:
    asked = {"checkpoint": CAPTIONS, "token_scores": True, "beam": 3, "n_best": 2}
    texts = [f"{TEXTS[0]}\nTwo dogs play.", LONG, "", TEXTS[1], "TWO DOGS ARE PLAYING."]
    made = server.send("/api/translate", {**asked, "texts": texts}).json["translations"]
    assert [one["divided"] for one in made] == [False, True, False, False, False]
    assert [one["respelled"] for one in made] == [False, False, False, False, True]
    assert [one["lost_numbers"] for one in made] == [[]] * 5
    assert [one["copied"] for one in made] == [[]] * 5
    assert [made[0]["parts"], made[2]["parts"], made[3]["parts"]] == [2, 0, 1]
    for best in made:
        for one in (best, *best["alternatives"]):
            assert sum(t["log_prob"] for t in one["tokens"]) == pytest.approx(
                one["score"], abs=1e-3
            )
            assert sum(t["token"] == "</s>" for t in one["tokens"]) == one["parts"]
    cut = {**asked, "texts": texts[:1], "max_length": 3}
    (best,) = server.send("/api/translate", cut).json["translations"]
    assert len(best["tokens"]) == 6
    assert sum(t["log_prob"] for t in best["tokens"]) == pytest.approx(best["score"], abs=1e-3)


def test_what_reads_a_text_whole_says_how_translation_reads_it(
    server: Running,
) -> None:
    for text in (TEXTS[0], LONG, f"{TEXTS[0]} Two dogs play.", TEXTS[0].upper()):
        asked = {"checkpoint": CAPTIONS, "text": text}
        body = {"checkpoint": CAPTIONS, "texts": [text]}
        (made,) = server.send("/api/translate", body).json["translations"]
        assert (made["parts"] > 1) == (text not in (TEXTS[0], TEXTS[0].upper()))
        assert made["respelled"] == text.isupper()
        given = {**asked, "target": "Ein Mann"}
        for path, one in (("attention", asked), ("attention", given), ("tree", asked)):
            whole = server.send(f"/api/{path}", one).json
            assert [whole[key] == made[key] for key in ("parts", "respelled")] == [True, True]


@pytest.mark.parametrize(
    "options",
    [
        {"banned": ["▁Pferd", "▁Pferden"]},
        {"banned": ["▁Pferd"], "beam": 3, "min_length": 14},
        {"repetition_penalty": 1.5, "no_repeat_ngram_size": 1, "min_length": 12, "beam": 2},
    ],
    ids=str,
)
def test_constraints_hold_as_in_python(server: Running, options: dict[str, Any]) -> None:
    translator = zoo.load(CARDS / CAPTIONS)
    same: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    wanted = translator.translate(TEXTS[0], **same)
    assert server.translate(CAPTIONS, TEXTS[0], **options) == [wanted]
    assert wanted != server.translate(CAPTIONS, TEXTS[0])[0]
    tree = server.send("/api/tree", {"checkpoint": CAPTIONS, "text": TEXTS[0], **options}).json
    best = tree["hypotheses"][0]
    with_beam: dict[str, Any] = {"beam": 5, **same}
    assert best["text"] == translator.translate(TEXTS[0], **with_beam)
    ranks = {node["rank"] for step in tree["steps"] for node in step}
    assert set(range(len(tree["hypotheses"]))) <= ranks  # each is a way through the tree


def test_wrong_constraints_are_refused(server: Running) -> None:
    asked = {"checkpoint": CAPTIONS, "texts": TEXTS[:1]}
    for options, part in (
        ({"banned": ["▁Pferdd"]}, "Did you mean ▁Pferd"),
        ({"banned": ["x"] * 101}, "banned"),
        ({"banned": [""]}, "banned"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"no_repeat_ngram_size": 0}, "no_repeat_ngram_size"),
        ({"min_length": 9, "max_length": 3}, "`min_length 9` exceeds `max_length 3`"),
        ({"n_best": 6}, "`n_best 6` needs a beam"),
        ({"split": False, "splitter": "lines"}, "`splitter lines` and `split: false` exclude"),
        ({"splitter": "sentencey"}, "sentencex"),
    ):
        answer = server.send("/api/translate", {**asked, **options})
        assert answer.status == 400, options
        assert part in answer.json["error"], answer.json


def test_texts_are_split_as_asked(server: Running) -> None:
    text = "A man rides a horse. Two dogs play.\nA girl climbs stairs."
    translator = zoo.load(CARDS / CAPTIONS)
    ways: tuple[dict[str, Any], ...] = (
        {}, {"split": False}, {"splitter": "lines"}, {"source_prefix": "Well now "},
    )  # fmt: skip
    for options in ways:
        wanted = translator.translate(text, **options)
        assert server.translate(CAPTIONS, text, **options) == [wanted]
    for options, count in zip(ways, (3, 2, 2, 3), strict=True):
        asked = {"checkpoint": CAPTIONS, "text": text, **options}
        body = server.send("/api/translate/stream", asked).body.decode()
        pieces = [json.loads(one) for one in re.findall("event: piece\ndata: (.*)", body)]
        assert len(pieces) == count, options
        for piece in pieces:
            prefix = str(options.get("source_prefix", ""))
            alone = translator.translate(piece["source"], split=False, source_prefix=prefix)
            assert piece["text"] == alone, options
    unknown = {"checkpoint": CAPTIONS, "text": text, "splitter": "line"}
    answer = server.send("/api/translate/stream", unknown)
    assert (answer.status, "lines" in answer.json["error"]) == (400, True)


def test_scores_are_those_of_forced_decoding(server: Running) -> None:
    pairs = [["A man", "Ein Mann"], ["two dogs", "zwei Katzen"]]
    scores = server.send("/api/score", {"checkpoint": CAPTIONS, "pairs": pairs}).json["scores"]
    sources, targets = zip(*pairs, strict=True)
    wanted = zoo.load(CARDS / CAPTIONS).score(list(sources), list(targets))
    for one, row in zip(scores, wanted, strict=True):
        assert [t["log_prob"] for t in one["tokens"]] == pytest.approx(row, abs=1e-3)
        assert one["tokens"][-1]["token"] == "</s>"


def test_attention_is_the_one_of_forward(server: Running) -> None:
    import base64

    from zoo.translation.attention import compute_attention

    asked = {"checkpoint": CAPTIONS, "text": TEXTS[0], "target": "Ein Mann reitet."}
    made = server.send("/api/attention", asked).json
    checkpoint = zoo.load(CARDS / CAPTIONS).checkpoint
    target = checkpoint.target_tokenizer.encode([asked["target"]])[0]
    seen = compute_attention(checkpoint, TEXTS[0], target)
    assert list(made["kinds"]) == ["cross", "encoder", "decoder"]
    for kind, panel in made["kinds"].items():
        weights = seen.weights[kind]
        shape = [panel["layers"], panel["heads"], len(panel["queries"]), len(panel["keys"])]
        assert shape == list(weights.shape)
        values = torch.frombuffer(
            bytearray(base64.b64decode(panel["weights"])), dtype=torch.float32
        )
        torch.testing.assert_close(values.view(weights.shape), weights, atol=1e-4, rtol=1e-3)
    without = server.send("/api/attention", {"checkpoint": SEQ2SEQ, "text": "four"}).json
    assert without["kinds"] == {}
    assert without["source"] == ["▁four"]


@pytest.mark.parametrize("beam", [1, 3, 5])
@pytest.mark.parametrize("checkpoint", [CAPTIONS, SEQ2SEQ])
def test_the_tree_is_the_search_that_translates(
    server: Running, checkpoint: str, beam: int
) -> None:
    text = TEXTS[0] if checkpoint == CAPTIONS else "four hundred and five"
    tree = server.send("/api/tree", {"checkpoint": checkpoint, "text": text, "beam": beam}).json
    expected = zoo.load(CARDS / checkpoint).translate(text, details=True, beam=beam, n_best=beam)
    assert [one["text"] for one in tree["hypotheses"]] == [
        one.text for one in (expected, *expected.alternatives)
    ]
    paths: list[list[tuple[str, float]]] = [[]]
    ends: dict[int, tuple[str, float]] = {}
    for step in tree["steps"]:
        assert sum(node["status"] == "kept" for node in step) <= beam
        made = []
        for node in step:
            path = [*paths[node["parent"]], (node["token"], node["log_prob"])]
            assert node["score"] == pytest.approx(sum(p for _, p in path), abs=1e-3)
            if node["status"] == "finished":
                ends[node["rank"]] = "".join(t for t, _ in path[:-1]), node["score"]
            made.append(path)
        paths = made
    for rank, one in enumerate(tree["hypotheses"]):
        if one["finished"]:
            assert ends[rank][0].replace("▁", " ").strip() == one["text"]
            assert ends[rank][1] == pytest.approx(one["score"], abs=1e-3)


def test_a_stream_gives_every_sentence_in_order(server: Running) -> None:
    text = "A man rides.  Two dogs run!\n\nA girl\nclimbs stairs? " * 30
    asked = json.dumps({"checkpoint": CAPTIONS, "text": text}).encode()
    request = urllib.request.Request(f"{server.url}/api/translate/stream", asked)
    with urllib.request.urlopen(request, timeout=60) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        assert response.headers["X-Accel-Buffering"] == "no"
        raw = response.read().decode()
    events = [block.split("\n", 1) for block in raw.strip().split("\n\n")]
    pieces = [json.loads(data[6:]) for kind, data in events if kind == "event: piece"]
    assert events[-1][0] == "event: done"
    assert "".join(p["source"] for p in pieces).split() == "".join(text.splitlines()).split() or (
        " ".join(p["source"] for p in pieces).split() == text.split()
    )
    for piece in pieces:
        start = piece["start"]
        assert text[start : start + len(piece["source"])] == piece["source"]
    unique = list(dict.fromkeys(p["source"] for p in pieces))
    wanted = dict(zip(unique, server.translate(CAPTIONS, *unique), strict=True))
    assert [p["text"] for p in pieces] == [wanted[p["source"]] for p in pieces]


def test_a_stream_may_have_many_sentences_and_fails_with_a_status(server: Running) -> None:
    asked = {"checkpoint": NUMBERS, "text": "four\n" * 1_500}
    answer = server.send("/api/translate/stream", asked)
    assert answer.body.count(b"event: piece") == 1_500
    assert answer.body.endswith(b'event: done\ndata: {"pieces": 1500}\n\n')
    answer = server.send("/api/translate/stream", {**asked, "banned": ["none such"]})
    assert (answer.status, answer.json["code"]) == (400, "bad_request")


def test_openapi_describes_the_routes(server: Running) -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    description = server.send("/openapi.json").json
    validator.validate(description)
    (base,) = description["servers"]
    below = "https://site.example/zoo/"  # of a reverse proxy
    assert urllib.parse.urljoin(f"{below}openapi.json", base["url"]) == below
    for path, methods in description["paths"].items():
        for method in methods:
            answer = server.send(path.replace("{name}", "x"), method=method.upper())
            assert answer.status in (200, 400, 404), (path, method)
            assert answer.status == 200 or set(answer.json) == {"error", "code"}
    known = description["components"]["schemas"]
    answer = server.send("/api/translate", {"checkpoint": NUMBERS, "texts": ["four"]}).json
    required = known["Translation"]["required"]
    assert all(name in answer["translations"][0] for name in required)


@pytest.mark.parametrize("kind", [TranslateRequest, StreamRequest, AttentionRequest, TreeRequest])
def test_the_defaults_that_openapi_gives_change_nothing(kind: type[SearchRequest]) -> None:
    """Generated clients send them all: a beam of 1, in place of what the checkpoint recommends."""
    fields = kind.model_json_schema()["properties"].items()
    defaults = {name: field["default"] for name, field in fields if "default" in field}
    text = {"texts": ["four"]} if kind is TranslateRequest else {"text": "four"}
    given = {"checkpoint": NUMBERS, **text}
    plain = kind.model_validate(given)
    assert kind.model_validate({**given, **defaults}).options() == plain.options()


def test_what_a_worker_writes_is_passed_on_as_it_is() -> None:
    """To parse and to write 17 MB of attention, the server answered nothing else for 60 ms."""
    fault: dict[str, Any] = {"error": ["the text is too long", "", ""], "code": "bad_request"}
    values = [{"text": "é\n", "score": -0.5}, "a", float("inf"), "\ud800", fault]
    results = [*({"value": value} for value in values[:-1]), fault]
    wanted = [b'{"text":"\xc3\xa9\\n","score":-0.5}', b'"a"']

    async def read(data: bytes) -> list[Any]:
        worker, stdout = Worker(0), asyncio.StreamReader()
        process: Any = SimpleNamespace(stdout=stdout)
        worker.process = process
        stdout.feed_data(data)
        stdout.feed_eof()
        return list((await worker._answer())["results"])

    data = written({"results": results, "seconds": 1.0})
    one, other, infinite, surrogate, last = asyncio.run(read(data))
    assert [one["value"], other["value"]] == wanted
    assert infinite["code"] == surrogate["code"] == "internal"
    assert last == fault
    assert json.loads(bytes(listed("translations", wanted).body)) == {"translations": values[:2]}
    with pytest.raises(ConnectionError):
        asyncio.run(read(data[:-1]))


def test_the_description_has_the_bounds_of_every_number() -> None:
    described = TranslateRequest.model_json_schema()["properties"]
    for name, most in (("beam", 16), ("max_length", 1_000), ("no_repeat_ngram_size", 100)):
        number, *null = described[name].get("anyOf", [described[name]])
        assert (number["minimum"], number["maximum"]) == (1, most)
        assert null in ([], [{"type": "null"}])


def test_models_are_described(server: Running) -> None:
    models = {one["name"]: one for one in server.send("/api/models").json["models"]}
    assert list(models) == [CAPTIONS, NUMBERS, SEQ2SEQ]
    assert models[CAPTIONS]["decoding"] == {"beam": 5, "length_penalty": 1.5}
    assert models[CAPTIONS]["examples"] == ["Two dogs are playing in the snow."]
    assert (models[NUMBERS]["source_language"], models[NUMBERS]["target_language"]) == ("en", "fr")
    details = server.send(f"/api/models/{NUMBERS}").json
    weights = sum(p.numel() for p in zoo.load(CARDS / NUMBERS).checkpoint.model.parameters())
    assert details["parameters"] == sum(details["blocks"].values()) == weights
    assert details["curve"]["loss"][-1][0] == 3000
    assert "## Parameters" in details["card"]


def test_metrics_health_and_readiness(server: Running) -> None:
    from prometheus_client.parser import text_string_to_metric_families as parse

    server.translate(NUMBERS, "four")
    for path in (f"/api/models/{NUMBERS}", "/api/nothing"):
        server.send(path)
    read = list(parse(server.send("/metrics").body.decode()))
    families = {family.name for family in read}
    counted = {s.labels["route"] for family in read for s in family.samples if "route" in s.labels}
    assert {"/api/translate", "/api/models/{name}", "other"} <= counted
    assert {"zoo_requests", "zoo_batch_texts", "zoo_queue_texts", "zoo_resident_bytes"} <= families
    assert server.send("/healthz").json == {"status": "ok"}
    assert server.send("/readyz").json == {"status": "ready", "workers": 2}


def test_libretranslate_clients_work(server: Running, run: Callable[..., Result]) -> None:
    client: Any = pytest.importorskip("libretranslatepy").LibreTranslateAPI(server.url)
    wanted = run("translate", CARDS / CAPTIONS, TEXTS[0]).stdout.strip()
    assert client.translate(TEXTS[0], "en", "de") == wanted
    assert client.translate("four hundred and five", "en", "fr") == "quatre cent cinq"
    settings = server.send("/frontend/settings").json
    assert settings["language"]["target"] == {"code": "de", "name": "German"}
    assert server.send("/health").json == {"status": "ok"}
    assert client.languages() == [{"code": "en", "name": "English", "targets": ["de", "fr"]}]
    (expected,) = client.detect("A man")
    assert expected["language"] == "en"
    assert 50 < expected["confidence"] <= 100
    several = server.send(
        "/translate", {"q": ["a man", "two dogs"], "source": "auto", "target": "de"}
    )
    assert several.json["translatedText"] == server.translate(CAPTIONS, "a man", "two dogs")
    assert [one["language"] for one in several.json["detectedLanguage"]] == ["en", "en"]
    more = server.send(
        "/translate", {"q": "a man", "source": "en", "target": "de", "alternatives": 2}
    )
    assert len(more.json["alternatives"]) == 2
    missing = server.send("/translate", {"q": "a", "source": "en", "target": "xx"})
    assert missing.status == 400
    assert "no checkpoint translates 'en' to 'xx'" in missing.json["error"]
    nulls = {"q": TEXTS[0], "source": "en", "target": "de", "format": None, "api_key": None}
    for asked in (nulls, {**nulls, "format": "", "api_key": ""}):
        assert server.send("/translate", asked).json["translatedText"] == wanted
    same = {"q": ["<b>one", "two"], "source": "en", "target": "en", "alternatives": 1}
    for changed in ({}, {"format": "html"}, {"source": "auto"}):
        answer = server.send("/translate", same | changed)
        assert answer.json["translatedText"] == same["q"], "it is in this language"
    wrong = {"q": "a", "source": "en", "target": "de", "format": "pdf"}
    assert server.send("/translate", wrong).status == 400


def test_forms_are_read_as_json_is(server: Running) -> None:
    wanted = server.translate(CAPTIONS, TEXTS[0])[0]
    fields = {"q": TEXTS[0], "source": "en", "target": "de", "api_key": ""}
    parts = "".join(
        f'--x1\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    urlencoded = {"Content-Type": "application/x-www-form-urlencoded"}
    several = {"Content-Type": "multipart/form-data; boundary=x1"}

    def sent(body: str, headers: dict[str, str]) -> Any:
        return server.send("/translate", body=body.encode(), headers=headers)

    assert sent(urlencode(fields), urlencoded).json["translatedText"] == wanted
    assert sent(json.dumps(fields), urlencoded).json["translatedText"] == wanted  # `curl -d`
    marked = "\ufeff" + json.dumps(fields)  # a file that an editor on Windows wrote
    assert sent(marked, urlencoded).json["translatedText"] == wanted
    assert sent(marked, {}).json["translatedText"] == wanted
    as_it_is = sent(f"q={TEXTS[0]} «ü»&source=en&target=de", urlencoded)  # as `curl -d` sends it
    assert as_it_is.json["translatedText"] == server.translate(CAPTIONS, f"{TEXTS[0]} «ü»")[0]
    assert sent(f"{parts}--x1--\r\n", several).json["translatedText"] == wanted
    unquoted = parts.replace('name="q"', "name=q")  # RFC 2183, section 2
    assert sent(f"{unquoted}--x1--\r\n", several).json["translatedText"] == wanted
    in_address = server.send(f"/translate?{urlencode(fields)}", body=b"", headers={})
    assert in_address.json["translatedText"] == wanted
    lines = urlencode({"q": "four\r\nfive", "source": "en", "target": "fr"})  # as browsers send
    assert sent(lines, urlencoded).json["translatedText"] == "quatre\ncinq"
    both = server.translate(CAPTIONS, TEXTS[0], TEXTS[1])
    twice = [("q", TEXTS[0]), ("q", TEXTS[1]), ("source", "en"), ("target", "de")]
    assert sent(urlencode(twice), urlencoded).json["translatedText"] == both
    answer = sent(urlencode([*twice, ("target", "fr")]), urlencoded)
    assert answer.status == 400
    assert "target: " in answer.json["error"]
    for body, headers in (
        (parts, several),
        ("", several),
        (f"{parts}--x1--", {"Content-Type": "multipart/form-data"}),
        (f"--x1\r\n\r\na\r\n{parts}--x1--", several),
        (parts * 600 + "--x1--", several),
        ("q=%ff", urlencoded),
        ("q=a&" * 2_000, urlencoded),
    ):
        answer = sent(body, headers)
        assert (answer.status, answer.json["code"]) == (400, "bad_request"), body[:50]
        assert "the form cannot be read" in answer.json["error"]


def test_a_form_has_as_many_texts_as_json(server: Running) -> None:
    urlencoded = {"Content-Type": "application/x-www-form-urlencoded"}
    several = {"Content-Type": "multipart/form-data; boundary=x1"}
    for count in (1_000, 1_001):
        given = [("source", "en"), ("target", "de"), *[("q", " ")] * count]
        parts = "".join(
            f'--x1\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in given
        )
        for body, headers in ((urlencode(given), urlencoded), (f"{parts}--x1--", several)):
            answer = server.send("/translate", body=body.encode(), headers=headers)
            if count == 1_000:
                assert len(answer.json["translatedText"]) == count
            else:
                assert (answer.status, answer.json["code"]) == (413, "too_large")


def test_html_keeps_its_tags_and_is_escaped(server: Running) -> None:
    source = (
        '<!DOCTYPE html><p class="a&amp;b">Two dogs <b>play</b>.</p> <br/>\n<!-- a man -->'
        "<script>if (a < b) run()</script><code>a &lt; b</code><pre>two dogs</pre>"
    )
    two, play = server.translate(CAPTIONS, "Two dogs", "play")
    wanted = (
        f'<!DOCTYPE html><p class="a&amp;b">{two} <b>{play}</b>.</p> <br/>\n<!-- a man -->'
        "<script>if (a < b) run()</script><code>a &lt; b</code><pre>two dogs</pre>"
    )
    asked = {"q": source, "source": "en", "target": "de", "format": "html"}
    assert server.send("/translate", asked).json["translatedText"] == wanted
    several = server.send("/translate", {**asked, "q": [source, "<br>", "a man"], "source": "auto"})
    assert several.json["translatedText"] == [wanted, "<br>", *server.translate(CAPTIONS, "a man")]
    assert [one["language"] for one in several.json["detectedLanguage"]] == ["en", "", "en"]
    wrapped = server.send("/translate", {**asked, "q": "<p>Two dogs\n  play.</p><b>•</b> 5 < 10"})
    (one,) = server.translate(CAPTIONS, "Two dogs play.")
    assert wrapped.json["translatedText"] == f"<p>{one}</p><b>•</b> 5 &lt; 10"
    more = server.send("/translate", {**asked, "q": "<i>a man</i>", "alternatives": 2}).json
    assert len(more["alternatives"]) == 2
    assert all(one.startswith("<i>") and one.endswith("</i>") for one in more["alternatives"])
    long = {**asked, "q": ["<a " * 2_000] * 2}
    assert server.send("/translate", long).status == 413
    assert "[CDATA[x]]" in Markup("<![CDATA[x]]>").filled([])
    assert Markup("<script>a < b").filled([]) == "<script>a < b"
    assert Markup("a &lt;img&gt; <b>c</b>").filled(["<img onerror=x>", "d"]) == (
        "&lt;img onerror=x&gt; <b>d</b>"
    )
