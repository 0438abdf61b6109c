"""What public functions answer to arguments of other types than they read."""

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch

import zoo
from zoo.errors import ArgumentError, DataError, DecodingError, HubError, ZooError
from zoo.registry.arguments import checked

CHECKED = (
    "create_model", "export", "hash_split", "join_sources", "list_checkpoints", "list_datasets",
    "list_models", "load", "pull", "push", "read_parallel", "read_tsv", "resume", "train",
)  # fmt: skip
LEFT = {"cache_folder", "downloads_folder", "levenshtein", "list_plugins"}
"""Functions without arguments, or with sequences alone."""


def test_every_function_of_zoo_checks_its_arguments() -> None:
    functions = {name for name in zoo.__all__ if inspect.isfunction(getattr(zoo, name))}
    assert functions == {*CHECKED, *LEFT}
    for name in CHECKED:
        function = getattr(zoo, name)
        assert get_type_hints(function), "all annotations can be resolved"
        assert copy.deepcopy(function) is function
        assert pickle.dumps(function), "another process can be given it"
        assert inspect.signature(function) == inspect.signature(function.__wrapped__)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: zoo.list_models(3), "wrong arguments of list_models: pattern is 3, not a text"),  # type: ignore[arg-type]
        (lambda: zoo.list_datasets(None), "pattern is None, not a text. See help.zoo.list_dat"),  # type: ignore[arg-type]
        (lambda: zoo.join_sources("abc"), "sources is 'abc', not a mapping"),  # type: ignore[arg-type]
        (lambda: zoo.read_tsv(None), "read_tsv: file is None, not a text or a path"),  # type: ignore[arg-type]
        (lambda: zoo.read_tsv("a\0b"), r"file is 'a\\x00b', with a null character"),
        (lambda: zoo.read_tsv("\ud800"), "with half of a surrogate pair, which no path has"),
        (lambda: zoo.load("x", registry="x"), "registry is 'x', not a value of type Registry"),  # type: ignore[arg-type]
        (lambda: zoo.load("x", 3, device=4), "more is 3, not a text or a path; device is 4, not"),  # type: ignore[arg-type]
        (lambda: zoo.export("x", [], None), r"format is \[\], not a text; out is None, not a"),  # type: ignore[arg-type]
        (lambda: zoo.push(3, 4), "checkpoint is 3, .*; address is 4, not a value of type Address"),  # type: ignore[arg-type]
        (lambda: zoo.pull("x", offline="no", progress=1), "offline is 'no', not True or False; pr"),  # type: ignore[arg-type]
        (lambda: zoo.Translator("x"), "wrong arguments of Translator: checkpoint is 'x', not a"),  # type: ignore[arg-type]
        (lambda: zoo.hash_split([], 3), "held_out is 3, not a mapping"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_one_line_names_all_wrong_arguments(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as error:
        call()
    assert isinstance(error.value, TypeError)
    assert "\n" not in str(error.value)


def test_parts_of_an_address_are_texts() -> None:
    parts: list[Any] = [(3, "a"), ("hf", 4), ("hf", "a", 3)]
    for given in parts:
        with pytest.raises(HubError, match="is not an address: a part of it is not a text"):
            zoo.Address(*given)


def test_paths_that_cannot_be_encoded_are_read_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "\udcff.tsv"  # as Python decodes a name that is no UTF-8
    file.write_text("one\tun\n")
    assert [*zoo.read_tsv(file)] == [("one", "un")]


def test_python_answers_missing_and_unknown_arguments() -> None:
    with pytest.raises(TypeError, match=r"load\(\) missing 1 required positional argument"):
        zoo.load()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"load\(\) got an unexpected keyword argument 'devise'"):
        zoo.load("x", devise="cpu")  # type: ignore[call-arg]


def test_numbers_and_iterables_are_left_to_the_function() -> None:
    @checked
    def function(count: int, texts: Any, name: str | None = None) -> tuple[Any, ...]:
        return count, texts, name

    assert function(np.int64(3), None) == (3, None, None)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="name is 3, not a text"):
        function(1, 2, 3)  # type: ignore[arg-type]


def test_splits_of_a_generator_are_those_of_a_list() -> None:
    pairs = [zoo.Pair(str(number), "x") for number in range(100)]

    def generated() -> Iterator[zoo.Pair]:
        yield from pairs

    assert zoo.hash_split(generated(), {"test": 10}) == zoo.hash_split(pairs, {"test": 10})
    with pytest.raises(DataError, match="'test' is 0, not a whole number of at least 1"):
        zoo.hash_split(pairs, {"test": 0})


@pytest.mark.parametrize("name", ["repetition_penalty", "coverage_penalty", "temperature"])
def test_factors_that_make_scores_infinite_are_refused(name: str) -> None:
    options: dict[str, Any] = {"sample": True} if name == "temperature" else {"beam": 2}
    for value in (1e39, 1e300, 10**30):
        with pytest.raises(DecodingError, match="at most 1,000,000, not"):
            zoo.Search(**{**options, name: value})
    zoo.Search(**{**options, name: 1_000_000})


@pytest.mark.parametrize("model", ["rnnsearch-d2l", "seq2seq-d2l", "transformer-d2l"])
def test_what_is_no_batch_is_refused(model: str) -> None:
    network = zoo.create_model(model, source_vocab=9, target_vocab=9)
    ids = torch.tensor([[4, 5, 2], [6, 2, 0]])
    mask = ids != 0
    assert network(ids, mask, target=ids[:, :2]).logits.shape == (2, 2, 9)
    empty = ids[:0]
    wrong: list[tuple[Any, Any, Any]] = [
        (empty, empty != 0, empty),
        (ids[:, :0], mask[:, :0], ids),
        (ids, mask, ids[:, :0]),
        (ids, mask.long(), ids),
        (ids, mask[:, :2], ids),
        (ids, mask, ids[:1]),
        (ids.float(), mask, ids),
        (ids.numpy(), mask, None),
    ]
    for source, source_mask, target in wrong:
        with pytest.raises(ArgumentError, match=r"cannot read this batch: source is .*It reads"):
            network(source, source_mask, target)
    beyond = ids.masked_fill(ids == 6, 12)
    with pytest.raises(ArgumentError, match=r"source has the id 12, and ids are 0 to 8$"):
        network(beyond, mask, ids)
    with pytest.raises(ArgumentError, match=r"source has the id -1, .*; target has the id 12, "):
        network(ids.masked_fill(~mask, -1), mask, beyond)


@pytest.mark.parametrize("model", ["rnnsearch-d2l", "seq2seq-tiny", "transformer-d2l"])
def test_gradients_of_torch_func_are_refused_and_its_calls_compute(model: str) -> None:
    """Some layers have a backward pass of their own, and torch's GRU none for torch.func either."""
    network = zoo.create_model(model, source_vocab=9, target_vocab=9).eval()
    ids = torch.tensor([[4, 5, 2], [6, 2, 0]])
    weights = {name: weight.detach() for name, weight in network.named_parameters()}

    def total(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        called: Any = torch.func.functional_call(network, weights, (ids, ids != 0, ids))
        return called.logits.logsumexp(2).sum()

    expected = network(ids, ids != 0, ids).logits.logsumexp(2).sum()
    torch.testing.assert_close(total(weights), expected)
    with pytest.raises(ZooError, match=r"torch\.func cannot transform this network: .*grad"):
        torch.func.grad(total)(weights)


def test_attention_has_no_labels_of_a_kind_that_the_model_lacks() -> None:
    attention = zoo.load("rnnsearch-tiny.numbers-en-fr").attention("twenty-one")
    assert attention.keys("cross")[-1] == attention.queries("cross")[-1] == "</s>"
    for method in (attention.keys, attention.queries, attention.describe):
        wrong: list[Any] = ["nope", None, []]
        for kind in wrong:
            with pytest.raises(DecodingError, match=r"has no attention of kind .*: it has cross"):
                method(kind)
