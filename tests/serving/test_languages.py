"""Checkpoints of several languages: what is offered, and who translates a pair of languages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("sentencepiece", reason="the extra `sentencepiece` is not installed")

import zoo
from tests.interop.huggingface import marian
from tests.serving.browser import CHROMIUM, DRIVER, MISSING, browser
from tests.serving.client import Running, start
from tests.serving.conftest import CAPTIONS, CARDS
from zoo.data.languages import find_language, language_name, same_language, short_codes
from zoo.errors import DecodingError
from zoo.interop.conversion import import_checkpoint
from zoo.registry.registry import Registry, default_registry
from zoo.serving.checkpoints import Checkpoints, Served
from zoo.serving.service import _readers_and_writers

TEXT = "A dog runs."
CODES = "eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint from English to German or French."""
    folder = tmp_path_factory.mktemp("foreign")
    marian(folder / "from", (">>deu<<", ">>fra<<"), max_length=20)
    import_checkpoint(folder / "from", folder / "many", default_registry(), options={})
    return folder / "many"


@pytest.mark.parametrize(("given", "codes", "code"), [
    ("zh-Hant-TW", CODES, "zho_Hant"), ("zh_Hans_CN", ("zh_CN", "zh_TW"), "zh_CN"),
    ("sr-Cyrl-RS", ("srp_Cyrl", "srp_Latn"), "srp_Cyrl"), ("es-419", ("es", "en"), "es"),
    ("es-419", ("spa_Latn",), "spa_Latn"), ("zh-Hant-TW", ("zho_Hans",), "zh-Hant-TW"),
    ("zh-Hant", ("zh-Hant-TW", "zh-Hans-CN"), "zh-Hant-TW"), ("sr-Latn-RS", ("sr",), "sr"),
])  # fmt: skip
def test_codes_may_have_a_script_and_a_country(
    given: str, codes: tuple[str, ...], code: str
) -> None:
    assert find_language(given, codes) == code
    assert same_language(given, code)


def served(name: str, sources: tuple[str, ...], targets: tuple[str, ...]) -> Served:
    return Served(name, Path(), sources, targets)


def holding(registry: Registry, *given: Served) -> Checkpoints:
    """Return checkpoints that need no folder."""
    checkpoints = Checkpoints({}, registry)
    short = short_codes(codes for one in given for codes in (one.sources, one.targets))
    checkpoints._served = {one.name: replace(one, short=short) for one in given}
    return checkpoints


@pytest.fixture(scope="module")
def running(many: Path) -> Iterator[Running]:
    with start(f"captions={CARDS / CAPTIONS}", str(many), "--workers", "1", forked=True) as server:
        yield server


@pytest.mark.parametrize(
    ("given", "codes", "meant"),
    [
        ("pt_BR", ("por_Latn", "eng_Latn"), "por_Latn"), ("pt-BR", ("pt", "en"), "pt"),
        ("fr_XX", ("fra_Latn",), "fra_Latn"), ("Deutsch", ("de_DE", "en_XX"), "de_DE"),
        ("eng_Latn", ("en_XX",), "en_XX"), ("zho_Hant", ("zho_Hans",), "zho_Hant"),
        ("pt_BR", ("pt_PT", "pt_XX"), "pt_XX"), ("deu_Latn", ("de_DE",), "deu_Latn"),
        ("DE-de", ("de", "en"), "de"), ("pt-br", ("por_Latn",), "por_Latn"),
        ("zh-hans", ("zho_Hans", "zho_Hant"), "zho_Hans"), ("DE-at", ("de_DE",), "DE-at"),
        ("sr_Latn", ("srp_Cyrl",), "sr_Latn"), ("src", ("en",), "src"), ("", ("en",), ""),
    ],
)  # fmt: skip
def test_codes_with_a_country_and_other_names_are_known(
    given: str, codes: tuple[str, ...], meant: str
) -> None:
    """Another script or country is not meant: what is not known is given back."""
    assert find_language(given, codes) == meant
    with pytest.raises(DecodingError, match="'zh_CN' is ambiguous: it may be zho_Hans or zho_Hant"):
        find_language("zh_CN", CODES)


def test_two_names_are_of_one_language_in_either_order() -> None:
    same = [("en", "eng_Latn"), ("pt-BR", "pt"), ("English", "en"), ("Deutsch", "deu_Latn")]
    for one, other in (*same, ("xx", "XX"), ("sr", "srp_Latn_RS")):
        assert same_language(one, other)
        assert same_language(other, one)
    assert not any(same_language(*pair) for pair in (("en", "de"), ("xx", "yy"), ("", "en")))


def test_short_codes_are_those_that_mean_one_language() -> None:
    assert short_codes([CODES]) == {
        "eng_Latn": "en", "fra_Latn": "fr", "zho_Hans": "zho_Hans", "zho_Hant": "zho_Hant",
    }  # fmt: skip
    assert short_codes([["ast_Latn", "pt_BR"], ["xx", "de"], ["eng"], ["eng_Latn"]]) == {
        "ast_Latn": "ast", "pt_BR": "pt", "xx": "xx", "de": "de", "eng": "en", "eng_Latn": "en",
    }  # fmt: skip
    assert short_codes([["nb"], ["nb", "sv"]]) == {"nb": "nb", "sv": "sv"}
    many, others = ["eng_Latn", "deu_Latn"], ["en_XX", "de_DE"]
    assert short_codes([["en", "de"], many, others]) == {
        code: code[:2] for code in (*many, *others, "en", "de")
    }
    for lists in ([["pt_BR"], ["pt_PT"], ["pt"]], [["nob_Latn", "nb"]], [["zho_Hans", "zh"]]):
        kept = [code for codes in lists for code in codes]
        assert short_codes(lists) == dict(zip(kept, kept, strict=True))
    names = map(language_name, ("zho_Hant", "en", "pt_BR", "eng_Latn", "xx_YY"))
    assert [*names] == ["Chinese (Hant)", "English", "Portuguese (BR)", "English (Latn)", "xx_YY"]


def test_a_language_is_detected_once_however_checkpoints_call_it(registry: Registry) -> None:
    nllb, mbart = served("nllb", CODES[:2], CODES[:2]), served("m", ("en_XX",), ("de_DE",))
    checkpoints = holding(registry, nllb, mbart, served("pair", ("en",), ("de",)))
    assert [*_readers_and_writers(checkpoints)] == ["en"]
    chosen = {target: checkpoints.translating("en", target) for target in ("fr", "de")}
    assert {t: one and one[0].name for t, one in chosen.items()} == {"fr": "nllb", "de": "pair"}


def test_every_pair_that_is_offered_can_be_chosen(registry: Registry) -> None:
    codes = (*CODES, "acm_Arab", "arb_Arab", "ace_Arab", "ace_Latn", "nob_Latn", "nno_Latn",
             "quy_Latn", "als_Latn", "kmr_Latn", "zsm_Latn", "pes_Arab", "prs_Arab")  # fmt: skip
    many = served("many", codes, (*codes[3:], "nb", "pt_BR"))
    checkpoints = holding(registry, many, served("pair", ("en",), ("pt_PT",)))
    assert {"acm", "ar", "ace_Arab", "sq", "zho_Hans"} <= {*checkpoints.offered}
    assert {"nob_Latn", "nb", "pt_BR", "pt_PT"} <= {*checkpoints.offered["en"]}
    for source, targets in checkpoints.offered.items():
        for target in targets:
            chosen = checkpoints.translating(source, target)
            assert chosen is not None, (source, target)
            one, choice = chosen
            sides = zip(one.languages, (one.sources, one.targets), strict=True)
            for side, given, code in zip(sides, (source, target), choice, strict=True):
                own = dict(zip(*side, strict=True))
                assert own[given] == (code or side[1][0])


def test_an_exact_code_precedes_the_catalogue(registry: Registry) -> None:
    variants = [served(code, ("en",), (code,)) for code in ("pt_BR", "pt_PT", "pt")]
    checkpoints = holding(registry, *variants)
    assert checkpoints.offered == {"en": ["pt_BR", "pt_PT", "pt"]}
    for code in ("pt_PT", "pt", "pt_BR"):
        assert checkpoints.translating("en", code) == (checkpoints[code], ("", ""))


def test_languages_are_chosen_by_any_of_their_codes() -> None:
    served = Served("many", Path(), CODES, CODES, short=short_codes([CODES]))
    assert served.default == ("en", "en")
    assert served.choice("French", "zho_hans") == ("fra_Latn", "zho_Hans")
    assert served.choice("en", "fr") == ("", "fra_Latn")
    assert served.choice("eng_Latn", "eng") == ("", ""), "its own default"
    assert served.choice("zho_Hans", "zho_Hant") == ("zho_Hans", "zho_Hant")
    for source, target in (("fr", "fra"), ("en", "zh"), ("de", "en"), ("en", ""), ("", "en")):
        assert served.choice(source, target) is None


def test_a_checkpoint_for_the_pair_precedes_one_of_many_languages(registry: Registry) -> None:
    checkpoints = holding(registry, served("many", CODES, CODES), served("pair", ("en",), ("fr",)))
    many, pair = checkpoints.values()
    assert checkpoints.translating("en", "fr") == (pair, ("", ""))
    assert checkpoints.translating("fr", "en") == (many, ("fra_Latn", ""))
    assert checkpoints.translating("fr", "de") is None
    offered = checkpoints.offered
    assert offered["fr"] == ["en", "zho_Hans", "zho_Hant"]
    assert offered["en"] == ["en", "fr", "zho_Hans", "zho_Hant"]


def test_all_requests_choose_languages(running: Running, many: Path) -> None:
    translator = zoo.load(many)
    chosen = {"checkpoint": "many", "source_lang": "English", "target_lang": "fr"}
    french = translator.for_languages("en", "fra")
    wanted = french.translate(TEXT)
    assert wanted != translator.translate(TEXT)
    assert running.translate("many", TEXT, target_lang="fra") == [wanted]
    assert running.translate("many", TEXT) == [translator.translate(TEXT)]
    scores = running.send("/api/score", {**chosen, "pairs": [[TEXT, "Ein Hund"]]}).json["scores"]
    (expected,) = french.score([TEXT], ["Ein Hund"])
    assert [one["log_prob"] for one in scores[0]["tokens"]] == pytest.approx(expected, abs=1e-5)
    shown = running.send("/api/attention", {**chosen, "text": TEXT}).json
    assert shown["source"][0] == ">>fra<<"
    assert shown["text"] == wanted
    tree = running.send("/api/tree", {**chosen, "text": TEXT, "beam": 6}).json
    assert tree["hypotheses"][0]["text"] == french.translate(TEXT, split=False)
    events = running.send("/api/translate/stream", {**chosen, "text": TEXT}).body.decode()
    (piece,) = re.findall("event: piece\ndata: (.*)", events)
    assert json.loads(piece)["text"] == wanted
    wrong = running.send("/api/translate", {**chosen, "texts": [TEXT], "target_lang": "Czech"})
    assert wrong.status == 400
    assert "no target language 'Czech'" in wrong.json["error"]


def test_what_is_offered(running: Running, many: Path) -> None:
    captions, several = running.send("/api/models").json["models"]
    assert captions["target_languages"] == [{"code": "de", "name": "German"}]
    assert [one["code"] for one in several["target_languages"]] == ["de", "fr"]
    assert (several["source_language"], several["target_language"]) == ("en", "de")
    (english,) = running.send("/languages").json
    assert (english["code"], english["targets"]) == ("en", ["de", "fr"])
    asked = {"q": TEXT, "source": "en", "target": "fr"}
    made = running.send("/translate", asked).json["translatedText"]
    assert made == zoo.load(many).translate(TEXT, target_lang="fra")
    assert [one["confidence"] for one in running.send("/detect", {"q": "Привет"}).json] == [0]
    automatic = running.send("/translate", {**asked, "source": "auto"}).json
    assert automatic["detectedLanguage"]["language"] == "en"
    german = running.send("/translate", {**asked, "target": "de"}).json["translatedText"]
    assert german == running.translate("captions", TEXT)[0], "the checkpoint for the pair"


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=MISSING)
def test_the_page_offers_the_languages(running: Running, many: Path) -> None:
    pytest.importorskip("selenium", reason="selenium is not installed")

    def at(checkpoint: str) -> str:
        return f"{running.url}/#{urlencode({'checkpoint': checkpoint, 'text': TEXT, 'beam': 1})}"

    def choices(page: Any) -> list[bool]:
        return [page.one(f"#{side}").is_displayed() for side in ("source", "target")]

    with browser() as page:
        page.open(at("captions"))
        assert choices(page) == [False, False]
        page.open(at("many"))
        assert choices(page) == [False, True]
        assert [one.text for one in page.all("#target option")] == ["French", "German"]
        french = zoo.load(many).for_languages(target_lang="fr")
        page.script("const s = document.getElementById('target'); s.value = 'fr';"
                    "s.dispatchEvent(new Event('change'))")  # fmt: skip
        page.settle()
        assert page.one("#translation").text == french.translate(TEXT, beam=1)
        assert "target=fr" in page.driver.current_url
        assert page.console() == []
