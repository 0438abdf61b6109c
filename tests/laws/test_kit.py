"""The test kit: a correct network satisfies every law, and each law detects its faults."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack, _pop_mode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.forked import python
from tests.laws import (
    wrong_parameters,
    wrong_randomness,
    wrong_results,
    wrong_settings,
    wrong_sizes,
    wrong_steps,
)
from tests.laws.networks import WRONG, Memory, Network, Right, State
from zoo import Architecture, Config, Dim, LengthLimits, Table, hookimpl
from zoo.decoding.greedy import greedy
from zoo.decoding.options import Search
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.errors import ArgumentError, ConfigError, PluginError
from zoo.nn import Encoded, Linear, Output, Step
from zoo.registry.api import API
from zoo.registry.catalogue import Model
from zoo.registry.owners import Plugin
from zoo.registry.plugins import Plugins
from zoo.registry.registry import Registry
from zoo.testing import LAWS, BrokenLawError, Case, Law, case, case_of
from zoo.testing.outcomes import Outcomes
from zoo.testing.settings import kept_settings, read_settings

LAW = {law.name: law for law in LAWS}
# Their import fills WRONG.
assert all(
    (wrong_parameters, wrong_randomness, wrong_results, wrong_settings, wrong_sizes, wrong_steps)
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_the_correct_network_satisfies_every_law(law: Law) -> None:
    law(case_of(Network, Right()))


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_is_detected_by_its_law(name: str) -> None:
    fault = WRONG[name]
    with pytest.raises(BrokenLawError) as caught:
        LAW[fault.law](case_of(*fault.build()))
    assert fault.message in caught.value.observed
    lines = str(caught.value).splitlines()
    assert lines[0] == f"law {fault.law}: {LAW[fault.law].statement}"
    assert any(line.startswith("observed: ") for line in lines)
    assert lines[-1].startswith("usual causes: ")


def test_a_law_of_networks_needs_a_case() -> None:
    for wrong in (3, "transformer", Network):
        with pytest.raises(ArgumentError, match=r"shapes is a law of a case, not of .* Give it"):
            LAW["shapes"](wrong)  # type: ignore[arg-type]  # wrong


@pytest.mark.parametrize("network", [wrong_steps.Greedy, wrong_steps.Beam])
def test_correct_steps_at_once_satisfy_every_law(network: type[Any]) -> None:
    """And searches take them, with the results of single steps."""
    for law in LAWS:
        if law.name not in ("learns_a_copy_task", "declaration_imports_no_torch"):  # slow
            law(case_of(network, Right()))
    tried = case_of(network, Right())
    beam = 1 if network is wrong_steps.Greedy else 3

    def searched() -> list[Any]:
        memory = tried.model.encode(tried.source, tried.mask).memory
        task = Task(tried.model, memory, tried.mask, 12)
        return [best for each in search(task, Search(beam=beam, n_best=beam)) for best in each]

    several = searched()
    cast(Any, tried.model).__class__ = Network
    one_by_one = searched()
    assert [best.tokens for best in several] == [best.tokens for best in one_by_one]
    assert [best.score for best in several] == pytest.approx([best.score for best in one_by_one])


@pytest.mark.parametrize("result", [None, (1, 2), "too many", "of other rows", "no tokens"])
def test_greedy_steps_of_a_wrong_type_are_the_networks_fault(result: object) -> None:
    class Wrong(wrong_steps.Greedy):
        def greedy_steps(self, *given: Any) -> Any:
            steps: Any = super().greedy_steps(*given)
            if result == "too many":
                return steps._replace(tokens=torch.cat([steps.tokens] * 20, 1))
            if result == "no tokens":
                return steps._replace(tokens=-1 - steps.tokens)
            return steps._replace(scores=steps.scores[1:]) if result == "of other rows" else result

    tried = case_of(Wrong, Right())
    if result is None:
        assert greedy(tried.model, tried.source, tried.mask, 12)
        return
    with pytest.raises(PluginError, match="greedy_steps returned"):
        greedy(tried.model, tried.source, tried.mask, 12)


WRONG_RESULTS: dict[str, Callable[[Any], Any]] = {
    "no steps": lambda steps: (1, 2),
    "no step": lambda steps: steps._replace(tokens=steps.tokens.new_zeros(())),
    "a list": lambda steps: steps._replace(tokens=steps.tokens.tolist()),
    "no logits": lambda steps: steps._replace(logits=None),
    "other rows": lambda steps: steps._replace(parents=steps.parents[:, 1:]),
    "parents in other sentences": lambda steps: steps._replace(parents=steps.parents % 3),
    "parents that are numbers": lambda steps: steps._replace(parents=steps.parents.float()),
    "no such tokens": lambda steps: steps._replace(tokens=steps.tokens + 10_000),
    "negative tokens": lambda steps: steps._replace(tokens=-1 - steps.tokens),
    "other scores": lambda steps: steps._replace(scores=steps.scores[1:]),
    "whole scores": lambda steps: steps._replace(scores=steps.scores.long()),
    "too many": lambda steps: steps._replace(
        tokens=steps.tokens.repeat(20, 1), parents=steps.parents.repeat(20, 1)
    ),
}


@pytest.mark.parametrize("wrong", WRONG_RESULTS)
def test_wrong_beam_steps_are_the_networks_fault(wrong: str) -> None:
    class Wrong(wrong_steps.Beam):
        def beam_steps(self, *given: Any) -> Any:
            return WRONG_RESULTS[wrong](super().beam_steps(*given))

    tried = case_of(Wrong, Right())
    memory = tried.model.encode(tried.source, tried.mask).memory
    with pytest.raises(PluginError, match=r"beam_steps (returned|took)"):
        search(Task(tried.model, memory, tried.mask, 12), Search(beam=3))


def test_a_network_may_take_single_steps() -> None:
    class Single(wrong_steps.Beam):
        def beam_steps(self, *given: Any) -> Any:
            return None

    tried = case_of(Single, Right())
    memory = tried.model.encode(tried.source, tried.mask).memory
    assert search(Task(tried.model, memory, tried.mask, 12), Search(beam=3))


class Regularized(Network):
    """Has a loss of its own: the sum of its squared logits, weighted lightly."""

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        output = super().forward(source, source_mask, target, attention)
        losses = {"size": 1e-4 * output.logits.square().sum()} if self.training else {}
        return output._replace(losses=losses)


def test_a_loss_of_the_networks_own_has_its_weight_in_training_when_a_copy_is_learned() -> None:
    LAW["learns_a_copy_task"](case_of(Regularized, Right()))


class TiedConfig(Right):
    """Has one row for the tied weight, under its first name."""

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        rows = super().parameters(source_vocab, target_vocab).rows
        return Table([row for row in rows if row.path != "output.weight"])


class Tied(Network):
    def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.output.weight = self.target.weight


def test_tied_weights_have_one_row_under_their_first_name() -> None:
    for law in LAWS:
        if law.name not in ("learns_a_copy_task", "declaration_imports_no_torch"):  # slow
            law(case_of(Tied, TiedConfig()))


def test_a_gate_that_is_closed_at_first_satisfies_every_law() -> None:
    """And the weights behind it get gradients: cases change weights whose numbers are all equal."""
    tried = case_of(wrong_parameters.Closed, wrong_parameters.ScaledConfig())
    scale = tried.model.get_parameter("scale")
    assert scale.unique().numel() == scale.numel()
    assert not tried.rebuild().get_parameter("scale").any()
    for law in LAWS:
        if law.name not in ("learns_a_copy_task", "declaration_imports_no_torch"):  # slow
            law(case_of(wrong_parameters.Closed, wrong_parameters.ScaledConfig()))


class RoutedConfig(Right):
    """Has a router and 24 experts."""

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        table, d = super().parameters(source_vocab, target_vocab), Dim("d", self.dim)
        table.add("router.weight", "W_r", (Dim("e", 24), d))
        for index in range(24):
            table.add(f"experts.{index}.weight", f"W_{index}", (d, d))
        return table


class Routed(Network):
    """Each token's state goes through the expert with the largest gate (Fedus et al. 2021)."""

    last = 24

    def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.router = Linear(config.dim, 24, bias=False)
        self.experts = nn.ModuleList(Linear(config.dim, config.dim, bias=False) for _ in range(24))

    def next(self, words: Tensor, before: Tensor) -> Tensor:
        state = super().next(words, before)
        gate, chosen = self.router(state).softmax(-1)[:, : self.last].max(-1)
        for index, expert in enumerate(self.experts):
            routed = gate[:, None] * expert(state)
            state = torch.where((chosen == index)[:, None], state + routed, state)
        return state


class Unread(Routed):
    """Routes no token to the last expert, whatever the weights."""

    last = 23


def test_an_expert_that_reads_no_token_of_the_batch_is_tried_with_other_weights() -> None:
    tried = case_of(Routed, RoutedConfig())
    before = [weight.clone() for weight in tried.model.parameters()]
    output = tried.model(tried.source, tried.mask, tried.target[:, :-1])
    experts = [tried.model.get_parameter(f"experts.{index}.weight") for index in range(24)]
    gradients = torch.autograd.grad(output.logits.sum(), experts)
    assert not all(gradient.any() for gradient in gradients)
    LAW["every_parameter_gets_a_gradient"](tried)
    for weight, old in zip(tried.model.parameters(), before, strict=True):
        assert torch.equal(weight, old)
    with pytest.raises(BrokenLawError, match=r"experts\.23\.weight\) gets no gradient"):
        LAW["every_parameter_gets_a_gradient"](case_of(Unread, RoutedConfig()))


class Locked(Network):
    def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.lock = Lock()


@pytest.mark.parametrize(
    "law", ["tensors_follow_the_device", "every_precision_works", "every_precision_trains"]
)
def test_a_network_that_cannot_be_copied_is_detected(law: str) -> None:
    with pytest.raises(BrokenLawError, match=r"cannot pickle '_thread\.lock' object"):
        LAW[law](case_of(Locked, Right()))


class Attends(Network):
    """Encodes by torch's own layers, whose dropout is off outside training."""

    def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.layer = nn.TransformerEncoderLayer(config.dim, 4, 48, batch_first=True)
        self.recurrence = nn.LSTM(config.dim, config.dim, 2, dropout=0.1, batch_first=True)

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        states, _ = self.recurrence(self.layer(self.source(source)))
        return Encoded(Memory(nn.functional.dropout(states, 0.1, self.training), source_mask))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_dropout_that_is_off_outside_training_is_allowed(dropout: float) -> None:
    tried = case_of(Attends, Right())
    for module in tried.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = dropout
    LAW["randomness_is_seeded"](tried)


@pytest.fixture
def without_default_device() -> Iterator[None]:
    """Remove what torch leaves where a default device is set within another one's context.

    Every later operation of this process would ask it, which takes a third more time.
    """
    yield
    for _ in _get_current_function_mode_stack():
        _pop_mode()


@pytest.mark.sweep
@pytest.mark.usefixtures("without_default_device")
@pytest.mark.parametrize("change", wrong_settings.CHANGES)
@pytest.mark.parametrize("method", ["the constructor", "encode", "forward in training mode"])
def test_a_changed_setting_is_reported_and_restored(change: str, method: str) -> None:
    before = read_settings()
    tried = case_of(wrong_settings.changing(wrong_settings.CHANGES[change], method), Right())
    with pytest.raises(BrokenLawError, match=re.escape(f"{method} changes {change}")):
        LAW["process_settings_stay"](tried)
    for law in LAWS:
        if law.name in ("shapes", "parameter_table_matches_network", "step_equals_forward"):
            law(tried)
    assert read_settings() == before


class OldNetwork(Network):
    """Returns the types of plugin API 1."""

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        memory = super().encode(source, source_mask).memory
        return cast("Encoded[Memory]", (memory, {}) if attention else memory)

    def step(
        self, token: Tensor, state: State, memory: Memory, attention: bool = False
    ) -> Step[State]:
        logits, after, kinds = super().step(token, state, memory, attention)
        return cast("Step[State]", (logits, after, kinds) if attention else (logits, after))

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        logits, kinds, _ = super().forward(source, source_mask, target, attention)
        return cast(Output, (logits, kinds) if attention else logits)


OLD = (
    "encode returns a Memory, not zoo.nn.Encoded(memory, attention); "
    "step returns a tuple (Tensor, list), not zoo.nn.Step(logits, state, attention); "
    "forward returns a Tensor, not zoo.nn.Output(logits, attention, losses). "
    "Since plugin API 2, methods return named tuples: see docs/api-2.md"
)
WITHOUT_RESULTS = {
    "plugin_has_no_problems",
    "declaration_imports_no_torch",
    "config_round_trips",
    "parameter_table_matches_network",
    "network_has_only_parameters",
    "arguments_stay_as_they_are",
}
"""Laws that read no result of encode, step or forward."""


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_a_network_of_api_1_gets_one_message_from_every_law(law: Law) -> None:
    tried = case_of(OldNetwork, Right())
    if law.name in WITHOUT_RESULTS or law.of == "own search":
        law(tried)
        return
    with pytest.raises(BrokenLawError) as caught:
        law(tried)
    assert caught.value.observed == OLD
    assert caught.value.__cause__ is None


def declared(**parts: Any) -> Case:
    """A case whose only plugin declares the correct network; `parts` override its arguments."""
    values = {
        "summary": "a test",
        "config": f"{Right.__module__}:Right",
        "network": f"{Right.__module__}:Network",
    } | parts
    datasets = values.pop("datasets", ())
    architecture = Architecture("right", paper="", **values)

    @hookimpl
    def zoo_architectures() -> list[Architecture]:
        return [architecture]

    @hookimpl
    def zoo_datasets() -> Any:
        return datasets

    plugins = Plugins()
    module = SimpleNamespace(
        ZOO_API=API, zoo_architectures=zoo_architectures, zoo_datasets=zoo_datasets
    )
    plugins.add(module, Plugin("right", "zoo-right", "1.0"))
    return case("right", Registry(plugins))


def test_a_declaration_that_imports_torch_is_detected() -> None:
    # The declared module of the config imports torch.
    with pytest.raises(BrokenLawError, match=f"importing {Right.__module__} imports torch"):
        LAW["declaration_imports_no_torch"](declared())


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (
            "import os, random, warnings\nos.environ['ZOO_CARELESS'] = '1'\nrandom.seed(1)\n"
            "warnings.filterwarnings('ignore')",
            "changes the environment (ZOO_CARELESS), Python's random numbers, "
            "the filters of warnings",
        ),
        ("print('hello')", "prints 'hello\\n'"),
        ("import tests.laws.networks", ""),
    ],
)
def test_what_an_import_changes_is_detected(
    line: str, fault: str, tmp_path: Path, forked_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "executable", str(forked_python))
    name = f"careless_{zlib.crc32(line.encode())}"
    (tmp_path / f"{name}.py").write_text(f"from {Right.__module__} import Network\n{line}\n")
    with kept_settings():
        tried = declared(network=f"{name}:Network")
        if not fault:
            LAW["process_settings_stay"](tried)
            return
        with pytest.raises(BrokenLawError, match=re.escape(f"importing {name} {fault}")):
            LAW["process_settings_stay"](tried)


def test_fixed_weights_and_dropout_in_training_are_allowed() -> None:
    LAW["randomness_is_seeded"](case_of(*wrong_randomness.fixed()))


def test_a_plugin_with_problems_is_detected() -> None:
    check = LAW["plugin_has_no_problems"]
    check(declared())
    with pytest.raises(BrokenLawError, match="returned 3, which is not of type Dataset"):
        check(declared(datasets=[3]))
    with pytest.raises(BrokenLawError, match="TypeError: 'int' object is not iterable"):
        check(declared(datasets=3))
    with pytest.raises(BrokenLawError, match="the architecture's summary must be one line"):
        check(declared(summary="two\nlines"))
    miscounted = declared()
    registry = cast("Registry", miscounted.registry)
    owner = registry.architectures.owner("right")
    registry.models.add("right-one", Model("right-one", "right", "", 1, 19, 17), owner)
    with pytest.raises(BrokenLawError, match="right-one: it has 2,752 parameters, not 1"):
        check(miscounted)


class Unready(Config):
    """A config without an example."""

    @property
    def width(self) -> int:
        return 1

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        return Table()


class Mistaken(Right):
    @classmethod
    def example(cls) -> Any:
        return {"dim": 8}


@pytest.mark.parametrize(
    ("config", "why"),
    [("Unready", "the class does not define it"), ("Mistaken", "it returns {'dim': 8}")],
)
def test_a_missing_example_has_its_own_message(config: str, why: str) -> None:
    message = f"{config}.example() gives no config to run the laws on: {why}"
    with pytest.raises(ConfigError, match=re.escape(message)):
        declared(config=f"{__name__}:{config}")


@pytest.mark.parametrize("limits", [(11, 9), (12, 8), (None, 3)])
def test_an_example_with_shorter_limits_than_the_laws_need_is_refused(limits: Any) -> None:
    """Each law failed, with its own usual causes."""

    class Short(Right):
        @property
        def length_limits(self) -> LengthLimits:
            return LengthLimits(*limits)

    with pytest.raises(ConfigError, match=r"Short leaves no room .* at least 12 and 9 are needed"):
        case_of(Network, Short())


FEW = {
    "dropout_outside_training": {"randomness_is_seeded", "every_precision_works"},
    "a_network_of_float32_only": {"shapes", "every_precision_works"},
    "another_type_with_attention": {"results_are_named_tuples"},
    "padding_that_leaks": {"padding_is_ignored"},
    "future_tokens_that_leak": {"future_is_ignored"},
    "memory_changed_by_a_step": {"step_is_pure"},
    "state_that_gather_does_not_reach": {"step_is_pure"},
    "a_buffer_shared_between_states": {"step_is_pure"},
    "logits_of_the_last_position_only": {"shapes"},
    "a_token_that_cannot_follow": {"logits_are_finite", "every_precision_works"},
}
"""Faults, each with the laws whose tests fail; those of the other laws pass, or wait."""


@pytest.mark.parametrize("name", FEW)
def test_one_mistake_fails_few_laws_and_the_others_name_what_they_wait_for(name: str) -> None:
    outcomes = Outcomes(LAWS, lambda: case_of(*WRONG[name].build()))
    failed, waiting = set(), {}
    for law in LAWS:
        if law.name in ("learns_a_copy_task", "declaration_imports_no_torch"):  # slow
            continue
        if law.of == "own search":  # about other networks; see tests/examples/test_masked.py
            continue
        try:
            outcomes.run(law)
        except BrokenLawError:
            failed.add(law.name)
        except pytest.skip.Exception as skipped:
            waiting[law.name] = str(skipped)
    assert failed == FEW[name]
    assert waiting
    for reason in waiting.values():
        assert reason in {f"waits for law {law}, which does not hold" for law in failed}


def test_a_network_that_cannot_be_built_fails_one_law() -> None:
    def unbuilt() -> Case:
        raise PluginError("the network is broken", "its constructor raised KeyError")

    outcomes = Outcomes(LAWS, unbuilt)
    first, *others = LAWS
    for _ in range(2):
        with pytest.raises(PluginError, match="its constructor raised"):
            outcomes.run(first)
    for law in others:
        with pytest.raises(pytest.skip.Exception, match=f"see the failure of {first.name}"):
            outcomes.run(law)


OF_VERSION_0_1 = [
    "a_buffer",
    "a_buffer_shared_between_states",
    "a_cache_that_grows_along_the_rows",
    "a_config_that_does_not_round_trip",
    "a_config_that_takes_any_key",
    "a_constant_that_bf16_cannot_hold",
    "a_constructor_that_names_a_device",
    "a_decoder_that_never_reads_the_target",
    "a_device_written_as_a_string",
    "a_field_without_a_description",
    "a_gradient_declared_to_be_zero",
    "a_miscounted_parameter",
    "a_network_of_float32_only",
    "a_network_that_cannot_learn",
    "a_network_that_fails_in_bf16",
    "a_parameter_missing_from_the_table",
    "a_parameter_without_gradient",
    "a_source_token_that_is_never_read",
    "a_state_on_another_device",
    "a_step_that_differs_from_forward",
    "a_table_with_an_extra_row",
    "a_tensor_without_a_device",
    "a_window_that_is_too_short",
    "an_in_place_write_to_an_earlier_state",
    "attention_that_is_no_distribution",
    "dropout_outside_training",
    "future_tokens_that_leak",
    "initial_weights_from_another_generator",
    "length_limits_that_are_too_long",
    "logits_of_the_last_position_only",
    "memory_changed_by_a_step",
    "padding_that_leaks",
    "randomness_outside_the_generator",
    "state_along_the_wrong_dimension",
    "state_of_a_type_that_gather_does_not_know",
    "state_that_gather_does_not_reach",
    "state_that_gather_reaches_in_part",
    "weights_that_do_not_round_trip",
]
"""The 38 faults that the laws of version 0.1 detected."""


def test_no_fault_was_forgotten() -> None:
    assert len(OF_VERSION_0_1) == 38
    assert set(OF_VERSION_0_1) < set(WRONG)


def test_requirements_are_laws_that_come_first() -> None:
    names = list(LAW)
    for law in LAWS:
        assert all(names.index(name) < names.index(law.name) for name in law.requires)


def test_every_law_has_a_fault() -> None:
    tested_above = {"declaration_imports_no_torch", "plugin_has_no_problems"}
    of_another_network = {law.name for law in LAWS if law.of == "own search"}
    faulty = {fault.law for fault in WRONG.values()}
    assert faulty | tested_above | of_another_network == set(LAW)


def test_the_modes_of_laws_do_not_make_torch_import_its_compiler() -> None:
    modes = [one for one in TorchDispatchMode.__subclasses__() if one.__module__[:4] == "zoo."]
    assert {mode.__name__ for mode in modes} >= {"_Drawing", "_OneDevice"}
    # What torch wraps to be left out by the compiler imports it when it is first called.
    assert not [mode for mode in modes if hasattr(mode.__torch_dispatch__, "__wrapped__")]


def test_the_kit_runs_from_the_command_line() -> None:
    command = [*python(), "-m", "pytest", "-vv", "-p", "no:cacheprovider", "--pyargs"]
    options = ["zoo.testing", "--zoo-architecture", "seq2seq", "-k", "shapes or step_is_pure"]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    for name in ("shapes", "step_is_pure"):
        assert f"test_law[seq2seq-{name}] PASSED" in done.stdout
