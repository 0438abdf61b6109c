"""What a GPU computes beside the CPU: searches, translators and training.

The laws compare the networks themselves on both (`zoo/testing/computation.py`). Without a GPU these
tests are skipped.
"""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import zoo
from tests.core.test_training import weights
from tests.external_plugins.journey import TOP
from zoo.decoding import step_graphs
from zoo.decoding.candidates import best_continuations, best_token
from zoo.decoding.forced import forced_log_probs
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.errors import DecodingError
from zoo.nn.contract import Seq2Seq
from zoo.nn.device import pick_device
from zoo.nn.padded import run_padded
from zoo.registry.registry import default_registry
from zoo.testing.case import Case
from zoo.testing.case import case as make_case
from zoo.training import passes
from zoo_transformer.network import Transformer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

ARCHITECTURES = sorted(default_registry().architectures)
SEARCHES = {
    "greedy": Search(max_length=12),
    "beam": Search(beam=4, n_best=3, length_penalty=1.0, max_length=12),
    "first": Search(beam=4, stop="first", max_length=12),
    "coverage": Search(beam=3, coverage_penalty=0.4, max_length=12),
    "lengths": Search(beam=3, min_length=6, max_length=9),
    "processors": Search(beam=3, no_repeat_ngram_size=2, repetition_penalty=1.3, max_length=12),
    "banned": Search(beam=3, banned=(5, 6, 7), max_length=12),
    "sampling": Search(sample=True, n_best=4, top_k=9, top_p=0.9, seed=3, max_length=12),
    "exhaustive": Search(exhaustive=True, n_best=3, max_length=3),
}
NUMBERS = TOP / "cards" / "checkpoints"
SETTINGS = {"warmup": 4, "batch_tokens": 100, "validate_every": 8, "save_every": 8,
            "bleu_sentences": 3, "schedule": "constant", "vocab_size": 90}  # fmt: skip
DEEP = {"cell": "lstm", "layers": 2, "start": "projected"}
FAMILIES = ("transformer", "rnnsearch", "convs2s", "seq2seq")
TEXTS = ["405", "780099", "7", "1000000", "21", "999999"] * 9


def hypotheses(
    network: Seq2Seq, case: Case, options: Search, prefixes: list[tuple[int, ...]] | None = None
) -> list[list[Hypothesis]]:
    """Search on the network's device."""
    device = next(network.parameters()).device
    source, mask = case.source.to(device), case.mask.to(device)
    with torch.inference_mode():
        memory = network.encode(source, mask).memory
        return search(Task(network, memory, mask, prefixes=prefixes), options)


def assert_same(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for actual_one, theirs in zip(actual, expected, strict=True):
        assert [h.tokens for h in actual_one] == [h.tokens for h in theirs]
        assert [h.score for h in actual_one] == pytest.approx([h.score for h in theirs], abs=1e-5)
        assert [h.finished for h in actual_one] == [h.finished for h in theirs]


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_search_finds_the_same_on_the_gpu(architecture: str, name: str) -> None:
    """In float64, so that rounding decides nothing."""
    case = make_case(architecture)
    if (name, architecture) == ("coverage", "seq2seq"):
        pytest.skip("it has no attention")
    on_gpu = copy.deepcopy(case.model).to("cuda")
    options = SEARCHES[name]
    assert_same(hypotheses(on_gpu, case, options), hypotheses(case.model, case, options))
    prefixes = [(5,), (), (6, 7), (8,), (9, 10)]
    if name in ("greedy", "beam", "sampling"):
        expected = hypotheses(case.model, case, options, prefixes)
        assert_same(hypotheses(on_gpu, case, options, prefixes), expected)


class Waiting(Transformer):
    """A network whose step waits for the GPU, which cannot be recorded."""

    recordable = True

    def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
        assert int(token.max()) >= 0
        return super().step(token, state, memory, attention)


def test_a_step_that_cannot_be_recorded_leaves_no_trace() -> None:
    case = make_case("transformer")
    network = copy.deepcopy(case.model).to("cuda")
    network.__class__ = Waiting  # type: ignore[assignment]  # it has the same weights
    for _ in range(2):
        assert_same(
            hypotheses(network, case, SEARCHES["beam"]),
            hypotheses(case.model, case, SEARCHES["beam"]),
        )
        assert step_graphs._GRAPHS[network].failure
        assert torch.nn.functional.dropout(torch.ones(99, device="cuda")).sum() > 0
        assert torch.rand(3, device="cuda").sum() > 0
    again = copy.deepcopy(case.model).to("cuda")
    hypotheses(again, case, SEARCHES["beam"])
    assert step_graphs._GRAPHS[again].failure == ""


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_steps_are_recorded(family: str, dtype: torch.dtype) -> None:
    case = make_case(family)
    network = copy.deepcopy(case.model).to("cuda", dtype)
    steps = 0
    for options in (SEARCHES["greedy"], SEARCHES["beam"], SEARCHES["greedy"]):
        actual = hypotheses(network, case, options)
        assert step_graphs._GRAPHS[network].failure == ""
        steps = len(step_graphs._GRAPHS[network]._graphs)
        assert steps
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(step_graphs, "can_record", lambda device: False)
            expected = hypotheses(network, case, options)
        if dtype is torch.float64:
            assert_same(actual, expected)


@pytest.mark.parametrize("spread", [3, 100_000])
def test_equal_scores_are_ordered_by_slot_and_token(spread: int) -> None:
    """With a small spread, most scores are equal."""
    torch.manual_seed(spread)
    banned = (0, 1, 3)
    for _ in range(50):
        sentences, width, k = (int(torch.randint(1, 7, ())) for _ in range(3))
        logits = torch.randint(-spread, spread, (sentences * width, 600)).double()
        score = torch.randint(-3, 1, (sentences, width)).double()
        score[torch.rand(score.shape) < 0.2] = -torch.inf
        # The GPU's own, since the processor adds up in another order, and rounds differently.
        log_probs = logits.cuda().log_softmax(1).cpu()
        torch.testing.assert_close(log_probs, logits.log_softmax(1))
        expected = best_continuations(log_probs, score, k, banned, normalized=True)
        actual = best_continuations(logits.cuda(), score.cuda(), k, banned)
        assert torch.equal(actual.parent.cpu(), expected.parent)
        assert torch.equal(actual.token.cpu(), expected.token)
        torch.testing.assert_close(actual.score.cpu(), expected.score)
        token, log_prob = best_token(logits.cuda(), banned)
        expected_token, expected_log_prob = best_token(logits, banned)
        assert torch.equal(token.cpu(), expected_token)
        torch.testing.assert_close(log_prob.cpu(), expected_log_prob)


@pytest.mark.filterwarnings("ignore:RNN module weights")  # of torch, of a packed bf16 sequence
@pytest.mark.parametrize("precision", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_padding_changes_nothing_on_the_gpu(
    kind: Any, bidirectional: bool, precision: torch.dtype
) -> None:
    """Beside torch's packed sequences: states, and gradients of all weights."""
    torch.manual_seed(1)
    net = kind(16, 24, 2, batch_first=True, bidirectional=bidirectional).to("cuda", precision)
    x = torch.randn(5, 9, 16, device="cuda", dtype=precision, requires_grad=True)
    lengths = torch.tensor([9, 4, 1, 7, 2])
    mask = (torch.arange(9) < lengths[:, None]).cuda()
    sequence = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    outputs, final = net(sequence)
    states = pad_packed_sequence(outputs, batch_first=True, total_length=9)[0]
    results = [(states, final if isinstance(final, tuple) else (final,)), run_padded(net, x, mask)]
    expected, actual = (
        [one, *ends, *torch.autograd.grad(one.sin().sum() + ends[0].cos().sum(), [
            x, *net.parameters()
        ])] for one, ends in results
    )  # fmt: skip
    # cuDNN computes in TF32 instead of float32.
    bound = {torch.float64: 1e-9, torch.float32: 2e-3, torch.bfloat16: 0.1}[precision]
    for one, other in zip(actual, expected, strict=True):
        assert (one - other).norm() <= bound * other.norm() + bound


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_given_targets_have_the_same_probabilities(architecture: str) -> None:
    case = make_case(architecture)
    targets = [[5, 6, 7], [8], [9, 10], [], [11, 12, 13, 14]]
    expected = forced_log_probs(case.model, case.source, case.mask, targets)
    on_gpu = copy.deepcopy(case.model).to("cuda")
    actual = forced_log_probs(on_gpu, case.source.cuda(), case.mask.cuda(), targets)
    for actual_one, theirs in zip(actual, expected, strict=True):
        assert actual_one == pytest.approx(theirs, abs=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_released_checkpoint_translates_the_same(family: str) -> None:
    folder = NUMBERS / f"{family}-tiny.numbers-en-fr"
    on_cpu, on_gpu = zoo.load(folder, device="cpu"), zoo.load(folder, device="cuda")
    assert on_gpu.device.type == "cuda"
    chosen: list[dict[str, Any]] = [{}, {"beam": 4, "n_best": 2}, {"sample": True, "seed": 5}]
    for options in chosen:
        expected = on_cpu.translate(TEXTS, details=True, **options)
        actual = on_gpu.translate(TEXTS, details=True, **options)
        assert [t.text for t in actual] == [t.text for t in expected]
        assert [t.score for t in actual] == pytest.approx([t.score for t in expected], abs=1e-2)
    texts = on_cpu.translate(TEXTS)
    expected_scores, scores = on_cpu.score(TEXTS, texts), on_gpu.score(TEXTS, texts)
    for actual_one, theirs in zip(scores, expected_scores, strict=True):
        assert actual_one == pytest.approx(theirs, abs=2e-2)
    again = pickle.loads(pickle.dumps(on_gpu))  # noqa: S301  # of this test
    assert again.translate(TEXTS[:6]) == texts[:6]


@pytest.mark.parametrize("family", FAMILIES)
def test_bf16_runs_on_the_gpu(family: str) -> None:
    folder = NUMBERS / f"{family}-tiny.numbers-en-fr"
    expected = zoo.load(folder, device="cpu").translate(TEXTS)
    rounded = zoo.load(folder, device="cuda", precision="bf16")
    for beam in (1, 4):
        texts = rounded.translate(TEXTS, beam=beam)
        assert sum(a == b for a, b in zip(texts, expected, strict=True)) > 0.8 * len(TEXTS)
    weight = next(rounded.checkpoint.model.parameters())
    assert weight.dtype is torch.float32, "score computes in it"
    assert len(rounded.score(TEXTS[:2], expected[:2])) == 2


def test_an_ensemble_on_the_gpu() -> None:
    folders = [NUMBERS / f"{family}-tiny.numbers-en-fr" for family in ("transformer", "rnnsearch")]
    expected = zoo.load(*folders, device="cpu").translate(TEXTS, beam=3)
    for precision in ("float32", "bf16"):
        ensemble = zoo.load(*folders, device="cuda", precision=precision)
        assert ensemble.translate(TEXTS, beam=3) == expected


def test_what_a_gpu_cannot_do_is_refused() -> None:
    folder = NUMBERS / "transformer-tiny.numbers-en-fr"
    with pytest.raises(DecodingError, match=r"int8 runs on the CPU only.*bf16"):
        zoo.load(folder, device="cuda", precision="int8")
    with pytest.raises(DecodingError, match="ctranslate2 runs on the CPU only"):
        zoo.load(folder, device="cuda", engine="ctranslate2")


def test_attention_and_alignment_on_the_gpu() -> None:
    folder = NUMBERS / "transformer-tiny.numbers-en-fr"
    on_cpu, on_gpu = zoo.load(folder, device="cpu"), zoo.load(folder, device="cuda")
    expected, actual = (t.attention("405") for t in (on_cpu, on_gpu))
    assert actual.target == expected.target
    for kind, values in expected.weights.items():
        torch.testing.assert_close(actual.weights[kind], values, atol=1e-3, rtol=0)
    aligned = [t.translate(["405"], alignment=True, details=True)[0] for t in (on_cpu, on_gpu)]
    assert aligned[0].alignment == aligned[1].alignment


def train(data: Path, out: Path, steps: int, device: str = "cuda", **settings: Any) -> Path:
    model = settings.pop("model", "transformer-tiny")
    every = {**SETTINGS, **settings}
    return zoo.train(model, f"{data}:en-de", out, settings=every, steps=steps, device=device)


def losses(out: Path) -> list[float]:
    lines = (out.with_name(f"{out.name}.run") / "metrics.jsonl").read_text().splitlines()
    return [row["loss"] for row in map(json.loads, lines) if "loss" in row]


@pytest.mark.parametrize(
    "name", ["transformer-tiny", "rnnsearch-tiny", "convs2s-tiny", "seq2seq-tiny"]
)
@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_training_on_the_gpu_is_that_of_the_cpu(
    name: str, r_drop: float, parallel: Path, tmp_path: Path
) -> None:
    """Without dropout, whose random numbers differ."""
    settings = {"model": name, "dropout": 0.0, "r_drop": r_drop, "average_decay": 0.9}
    for device in ("cpu", "cuda"):
        train(parallel, tmp_path / device, 12, device, **settings)
    expected = pytest.approx(losses(tmp_path / "cpu"), rel=2e-3)
    assert losses(tmp_path / "cuda") == expected


@pytest.mark.parametrize("settings", [
    {}, {"precision": "bf16"}, {"average_decay": 0.9, "r_drop": 1.0}, {"word_dropout": 0.1},
    {"accumulate": 2}, {"model": "convs2s-tiny"}, {"model": "rnnsearch-tiny"},
    {"model": "rnnsearch-tiny", "precision": "bf16", **DEEP}, {"model": "seq2seq-tiny"},
    {"model": "seq2seq-tiny", "cell": "lstm", "precision": "bf16"},
], ids=str)  # fmt: skip
def test_recorded_passes_train_the_same(
    settings: dict[str, Any], parallel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout: a recorded pass draws what it would have drawn."""
    repeated = []
    original = passes._Recorded.repeat

    def repeat(self: Any, *given: Any) -> Any:
        repeated.append(1)
        return original(self, *given)

    monkeypatch.setattr(passes._Recorded, "repeat", repeat)
    train(parallel, tmp_path / "recorded", 40, **settings)
    assert len(repeated) > 5
    monkeypatch.setattr(passes, "can_record", lambda device: False)
    train(parallel, tmp_path / "plain", 40, **settings)
    expected = pytest.approx(losses(tmp_path / "plain"), rel=1e-3)
    assert losses(tmp_path / "recorded") == expected


def test_a_network_that_waits_for_the_gpu_is_trained(
    parallel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(self: Transformer, source: Tensor, *given: Any, **named: Any) -> Any:
        assert int(source.max()) >= 0
        return original(self, source, *given, **named)

    original = Transformer.encode
    monkeypatch.setattr(Transformer, "encode", encode)
    run = train(parallel, tmp_path / "a", 30)
    assert zoo.load(run, device="cuda").translate(["the dog runs."], max_length=5)


@pytest.mark.parametrize("settings", [
    {}, {"precision": "bf16"}, {"average_decay": 0.9, "r_drop": 1.0},
    {"word_dropout": 0.1}, {"optimizer": "adamw", "accumulate": 2}, {"model": "seq2seq-tiny"},
    {"model": "rnnsearch-tiny", **DEEP},
], ids=str)  # fmt: skip
def test_an_interrupted_run_ends_with_the_same_weights(
    settings: dict[str, Any], parallel: Path, tmp_path: Path
) -> None:
    """With dropout: the GPU's random numbers continue where they were."""
    # What `auto` chooses depends on the number of updates; a run that is over validates again.
    settings = {"dropout": 0.1, "word_dropout": 0.0, "select": "last", **settings}
    whole = train(parallel, tmp_path / "whole", 15, **settings)
    parts = train(parallel, tmp_path / "parts", 9, **settings)
    zoo.resume(parts, steps=15, device="cuda")
    actual = weights(parts)
    wrong = {
        name: float((actual[name] - weight).abs().max())
        for name, weight in weights(whole).items()
        if not torch.allclose(actual[name], weight, atol=1e-6, rtol=1e-4)
    }
    assert not wrong


def test_a_run_goes_on_on_the_other_device(parallel: Path, tmp_path: Path) -> None:
    run = train(parallel, tmp_path / "a", 6)
    zoo.resume(run, steps=9, device="cpu")
    zoo.resume(run, steps=12, device="cuda")
    assert zoo.load(run, device="cuda").translate(["the dog runs."], max_length=5)


def test_tuning_and_automatic_choices_on_the_gpu(parallel: Path, tmp_path: Path) -> None:
    run = train(parallel, tmp_path / "a", 6, precision="auto")
    tuned = zoo.train(
        None, f"{parallel}:en-de", tmp_path / "b", from_=str(run), steps=4, device="cuda"
    )
    assert zoo.load(tuned, device="cuda").translate(["a cat sings."], max_length=5)


@pytest.mark.filterwarnings("ignore")  # of torch, about itself
def test_a_compiled_network_trains_on_the_gpu(parallel: Path, tmp_path: Path) -> None:
    plain = train(parallel, tmp_path / "plain", 8, dropout=0.0)
    train(parallel, tmp_path / "compiled", 8, dropout=0.0, compile=True)
    assert losses(tmp_path / "compiled") == pytest.approx(losses(plain), rel=2e-3)


def test_the_first_gpu_has_two_names() -> None:
    assert pick_device("cuda") == pick_device("cuda:0")
