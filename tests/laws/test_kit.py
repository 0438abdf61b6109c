"""The kit is proved: a network that is right keeps every law, and each wrong one is caught."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple, Self, cast

import pytest
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from zoo import Architecture, Config, Dim, LengthLimits, Table, hookimpl
from zoo.nn import Cache, Seq2Seq
from zoo.registry.catalogue import Model
from zoo.registry.owners import Plugin
from zoo.registry.plugins import Plugins
from zoo.registry.registry import Registry
from zoo.testing import LAWS, BrokenLawError, Case, case, case_of

LAW = {law.name: law for law in LAWS}


class Right(Config):
    """The config of the right network, and of most wrong ones."""

    dim: int = Field(32, description="width d")

    @classmethod
    def example(cls) -> Self:
        return cls()

    @property
    def width(self) -> int:
        return self.dim

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        vs, vt, d = Dim("V_s", source_vocab), Dim("V_t", target_vocab), Dim("d", self.dim)
        table = Table()
        table.add("source.weight", "W_i", (vs, d))
        table.add("target.weight", "W_o", (vt, d))
        table.add("inner.weight", "W", (d, d))
        table.add("inner.bias", "b", (d,))
        table.add("output.weight", "W_Ỹ", (vt, d))
        return table


class Memory(NamedTuple):
    states: Tensor
    mask: Tensor


class Network(Seq2Seq):
    """A tanh recurrence that attends to the words of the source: the right one."""

    def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.source = nn.Embedding(source_vocab, config.dim)
        self.target = nn.Embedding(target_vocab, config.dim)
        self.inner = nn.Linear(config.dim, config.dim)
        self.output = nn.Linear(config.dim, target_vocab, bias=False)

    def encode(self, source: Tensor, source_mask: Tensor, attention: bool = False) -> Any:
        memory = Memory(self.source(source), source_mask)
        return (memory, {}) if attention else memory

    def init_state(self, memory: Any) -> Any:
        return [torch.zeros_like(memory.states[:, 0])]

    def next(self, words: Tensor, before: Tensor) -> Tensor:
        return torch.tanh(self.inner(words + before))

    def attend(self, state: Tensor, memory: Any) -> tuple[Tensor, Tensor]:
        scores = state.unflatten(0, (len(memory.mask), -1)) @ memory.states.mT
        scores = (scores / state.shape[-1] ** 0.5).masked_fill(~memory.mask[:, None], -torch.inf)
        weights = scores.softmax(-1)
        return (weights @ memory.states).flatten(0, 1), weights.flatten(0, 1)

    def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
        after = self.next(self.target(token), state[0])
        context, weights = self.attend(after, memory)
        logits = self.output(after + context)
        if attention:
            return logits, [after], {"cross": weights[:, None, None, None]}
        return logits, [after]

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Any:
        memory = Network.encode(self, source, source_mask)
        state, logits, weights = Network.init_state(self, memory), [], []
        for token in target.T:
            one, state, kinds = Network.step(self, token, state, memory, attention=True)
            logits.append(one)
            weights.append(kinds["cross"])
        if attention:
            return torch.stack(logits, 1), {"cross": torch.cat(weights, 3)}
        return torch.stack(logits, 1)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_the_right_network_keeps_every_law(law: Callable[[Case], None]) -> None:
    law(case_of(Network, Right()))


Wrong = tuple[type[Seq2Seq], Config]
WRONG: dict[str, tuple[str, str, Callable[[], Wrong]]] = {}
"""What is wrong: the law that catches it, a part of what it says, and the wrong model."""


def wrong(law: str, says: str) -> Callable[[Callable[[], Any]], None]:
    def add(make: Callable[[], Any]) -> None:
        def made() -> Wrong:
            found = make()
            return found if isinstance(found, tuple) else (found, Right())

        WRONG[make.__name__] = law, says, made

    return add


@wrong("step_equals_forward", "step 0 differs from forward: off by")
def a_step_that_differs_from_forward() -> Any:
    class Louder(Network):
        def step(self, *given: Any, **more: Any) -> Any:
            logits, *rest = super().step(*given, **more)
            return (logits * 1.001, *rest)

    return Louder


@wrong("step_equals_forward", "step 2 differs from forward")
def a_window_too_short() -> Any:
    class Forgetful(Network):
        def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
            old = state[0]
            logits, after, *kinds = super().step(token, [old], memory, attention)
            forgotten = [torch.where(old == 0, after[0], torch.zeros_like(after[0]))]
            return (logits, forgotten, *kinds)

    return Forgetful


@wrong("step_of_gathered_is_gathered_step", "the network raised RuntimeError")
def state_that_gather_does_not_reach() -> Any:
    class Hoarder(Network):
        def init_state(self, memory: Any) -> Any:
            self.kept = super().init_state(memory)
            return [torch.zeros_like(memory.states[:, 0])]

        def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
            found = super().step(token, self.kept, memory, attention)
            self.kept = found[1]
            return found

    return Hoarder


@wrong("step_of_gathered_is_gathered_step", "of a beam is not that of a beam of 1")
def state_that_gather_reaches_in_part() -> Any:
    class Beside(Network):
        """Keeps a part of its state on the module, a row for each row there was."""

        def init_state(self, memory: Any) -> Any:
            (state,) = super().init_state(memory)
            self.beside = state
            return [state]

        def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
            rows = torch.arange(len(token)) % len(self.beside)
            whole = state[0] + self.beside[rows]
            found = super().step(token, [whole], memory, attention)
            self.beside = found[1][0] / 2
            return (found[0], [found[1][0] / 2], *found[2:])

    return Beside


@wrong("shapes", "its rows are not on dimension 0")
def state_along_the_wrong_dimension() -> Any:
    class LayersFirst(Network):
        # Five layers, as many as the batch has rows: by length alone it would not show.
        def init_state(self, memory: Any) -> Any:
            return [super().init_state(memory)[0].expand(5, -1, -1)]

        def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
            logits, after, *kinds = super().step(token, [state[0][0]], memory, attention)
            return (logits, [after[0].expand(5, -1, -1)], *kinds)

    return LayersFirst


@wrong("shapes", "grows along dimension 0, which is its rows")
def a_cache_that_grows_along_the_rows() -> Any:
    class Grows(Network):
        def init_state(self, memory: Any) -> Any:
            return [*super().init_state(memory), Cache(memory.states[:, 0], 0)]

    return Grows


@wrong("shapes", "a dict is neither a tensor, a zoo.Cache nor nested in one")
def state_of_a_kind_that_gather_does_not_know() -> Any:
    class Dictionary(Network):
        def init_state(self, memory: Any) -> Any:
            return [*super().init_state(memory), {"hidden": 1}]

    return Dictionary


@wrong("shapes", "forward's logits are")
def logits_of_the_last_position_alone() -> Any:
    class Last(Network):
        def forward(self, *given: Any, **more: Any) -> Any:
            return super().forward(*given, **more)[:, -1]

    return Last


@wrong("padding_changes_nothing", "three more columns of padding change it")
def padding_that_leaks() -> Any:
    class Unmasked(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Any:
            return super().forward(source, torch.ones_like(source_mask), target, attention)

    return Unmasked


@wrong("future_changes_nothing", "places before 1 see what follows")
def the_future_that_leaks() -> Any:
    class Prophet(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Any:
            logits = super().forward(source, source_mask, target).logits
            return logits + 1e-3 * logits.mean(1, keepdim=True)

    return Prophet


@wrong("future_changes_nothing", "do not depend on the token there")
def a_decoder_that_never_sees_the_target() -> Any:
    class Deaf(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Any:
            return super().forward(source, source_mask, torch.ones_like(target), attention)

    return Deaf


@wrong("source_changes_the_answer", "source token 0 of 3 never reaches the logits")
def a_source_token_that_is_never_read() -> Any:
    class Skips(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Any:
            mask = source_mask.clone()
            mask[:, 0] = False
            return super().forward(source, mask, target, attention)

    return Skips


@wrong("two_batches_go_side_by_side", "step 0 differs once another batch is written")
def what_encode_found_kept_on_the_module() -> Any:
    class Keeps(Network):
        def encode(self, source: Tensor, source_mask: Tensor, attention: bool = False) -> Any:
            self.level = self.source(source).mean()
            return super().encode(source, source_mask, attention)

        def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
            logits, *others = super().step(token, state, memory, attention)
            return (logits + torch.arange(logits.shape[1]) * self.level, *others)

    return Keeps


@wrong("an_old_state_gives_its_old_answer", "a step changed the memory")
def memory_changed_by_a_step() -> Any:
    class Writes(Network):
        def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
            memory.states.mul_(0.9)
            return super().step(token, state, memory, attention)

    return Writes


@wrong("an_old_state_gives_its_old_answer", "the state before step 0 gives another answer later")
def an_in_place_write_that_spoils_an_earlier_state() -> Any:
    class InPlace(Network):
        def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
            found = super().step(token, state, memory, attention)
            state[0].copy_(found[1][0])
            return found

    return InPlace


@wrong("an_old_state_gives_its_old_answer", "gives another answer later")
def a_buffer_shared_between_states() -> Any:
    class Shares(Network):
        """Appends to one list, whichever state it is given."""

        def init_state(self, memory: Any) -> Any:
            self.sums = torch.zeros_like(memory.states[:, 0])
            return [self.sums]

        def step(self, token: Tensor, state: Any, memory: Any, attention: bool = False) -> Any:
            logits, after, *kinds = super().step(token, state, memory, attention)
            return (logits, [self.sums.copy_(after[0])], *kinds)

    return Shares


class Scaled(Network):
    """Right but for one more parameter, `scale`, which the table may know or not."""

    def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.scale = nn.Parameter(torch.ones(config.dim))

    def next(self, words: Tensor, before: Tensor) -> Tensor:
        return self.scale * super().next(words, before)


class ScaledConfig(Right):
    """Tells of `scale` too, with `reason` for why it gets no gradient."""

    reason: str | None = Field(None, description="why it gets no gradient")

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        table = super().parameters(source_vocab, target_vocab)
        table.add("scale", "g", (Dim("d", self.dim),), zero_gradient=self.reason)
        return table


@wrong("table_is_the_network", "scale (32,) is not in the table")
def a_parameter_missing_from_the_table() -> Any:
    return Scaled, Right()


@wrong("table_is_the_network", "its sum is 2,784, the network has 2,752")
def a_table_with_a_row_too_many() -> Any:
    return Network, ScaledConfig()


@wrong("table_is_the_network", "does not fit (32, 32)")
def a_miscounted_parameter() -> Any:
    class Miscounts(Right):
        def parameters(self, source_vocab: int, target_vocab: int) -> Table:
            table = Table()
            d = Dim("d", self.dim)
            for row in super().parameters(source_vocab, target_vocab):
                if row.path == "inner.weight":
                    table.add(row.path, "W", (d, 2 * d))
                else:
                    table.rows.append(row)
            return table

    return Network, Miscounts()


@wrong("every_parameter_gets_a_gradient", "g (scale) gets no gradient, and gives no reason")
def a_parameter_without_gradient() -> Any:
    class Idle(Scaled):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            return Network.next(self, words, before)

    return Idle, ScaledConfig()


@wrong("every_parameter_gets_a_gradient", "is declared without gradient, but gets one")
def a_gradient_declared_away() -> Any:
    return Scaled, ScaledConfig(reason="so they say")


@wrong("randomness_is_seeded", "is not torch's default generator")
def randomness_outside_the_generator() -> Any:
    class Dice(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            factor = random.random() if self.training else 1.0
            return factor * super().next(words, before)

    return Dice


@wrong("randomness_is_seeded", "random numbers are drawn outside training mode")
def dropout_that_never_ends() -> Any:
    class Drops(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            return nn.functional.dropout(super().next(words, before), 0.1)

    return Drops


@wrong("randomness_is_seeded", "one seed gives two first values of inner.bias")
def first_weights_of_another_generator() -> Any:
    class Starts(Network):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            nn.init.constant_(self.inner.bias, random.random())

    return Starts


@wrong("config_round_trips", "comes back from JSON as")
def a_config_that_does_not_round_trip() -> Any:
    class Doubles(Right):
        @model_validator(mode="before")
        @classmethod
        def _double(cls, values: Any) -> Any:
            return {**values, "dim": 2 * values["dim"]} if "dim" in values else values

    return Network, Doubles()


@wrong("config_round_trips", "takes an unknown key in silence")
def a_config_that_takes_any_key() -> Any:
    class Takes(Right, extra="ignore"):
        pass

    return Network, Takes()


@wrong("config_round_trips", "config fields without a description: depth")
def a_field_without_a_description() -> Any:
    class Silent(Right):
        depth: int = 1

    return Network, Silent()


@wrong("no_tensor_is_left_on_another_device", "was given tensors on cpu and on meta")
def a_tensor_made_on_no_device() -> Any:
    class Counts(Network):
        def attend(self, state: Tensor, memory: Any) -> tuple[Tensor, Tensor]:
            places = torch.arange(memory.mask.shape[1])
            far = memory.states * (places < 1000)[:, None]
            return super().attend(state, Memory(far, memory.mask))

    return Counts


@wrong("no_tensor_is_left_on_another_device", "was given tensors on cpu and on meta")
def a_device_written_out() -> Any:
    class Names(Network):
        def init_state(self, memory: Any) -> Any:
            shape = memory.states[:, 0].shape
            return [torch.zeros(shape, device="cpu", dtype=memory.states.dtype)]

    return Names


@wrong("no_tensor_is_left_on_another_device", "state holds a tensor (5, 32) on meta")
def a_state_left_behind() -> Any:
    class Leaves(Network):
        def init_state(self, memory: Any) -> Any:
            return [*super().init_state(memory), torch.zeros(memory.states[:, 0].shape)]

    return Leaves


@wrong("every_precision_works", "float64 fails")
def a_network_of_float32_alone() -> Any:
    class Single(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            return super().next(words.float(), before.float())

    return Single


@wrong("every_precision_works", "bfloat16 fails")
def a_network_that_fails_in_bf16() -> Any:
    class Places(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            return super().next(words + torch.ones(1, device=words.device), before)

    return Places


@wrong("every_precision_works", "bfloat16 fails: value cannot be converted")
def a_constant_that_bf16_cannot_hold() -> Any:
    class Huge(Network):
        def next(self, words: Tensor, before: Tensor) -> Tensor:
            # Nearly float32's largest number; bfloat16 rounds it up, to infinity.
            one = torch.full_like(words, 3.4e38)
            return super().next(words + (one - one), before)

    return Huge


@wrong("weights_round_trip", "loaded weights give other answers")
def weights_that_do_not_round_trip() -> Any:
    class Beside(Network):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.factor = 0.5 + float(torch.rand((), device="cpu"))

        def next(self, words: Tensor, before: Tensor) -> Tensor:
            return self.factor * super().next(words, before)

    return Beside


@wrong("no_weights_but_parameters", "buffers ['kept']")
def a_buffer() -> Any:
    class Buffers(Network):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.register_buffer("kept", torch.zeros(1), persistent=False)

    return Buffers


@wrong("no_weights_but_parameters", "built on the meta device, inner.bias are not there")
def a_constructor_that_names_a_device() -> Any:
    class Names(Network):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.inner.bias = nn.Parameter(torch.zeros(self.inner.bias.shape, device="cpu"))

    return Names


@wrong("attention_sums_to_one", "cross attention's sum: off by")
def attention_that_is_no_distribution() -> Any:
    class Raw(Network):
        def forward(self, *given: Any, **more: Any) -> Any:
            found = super().forward(*given, **more)
            return (found[0], {"cross": 2 * found[1]["cross"]}) if more.get("attention") else found

    return Raw


@wrong("limits_are_real", "the network raised IndexError")
def limits_that_are_not_real() -> Any:
    class Limited(Right):
        @property
        def length_limits(self) -> LengthLimits:
            return LengthLimits(30, 30)

    class Short(Network):
        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Any:
            list(range(20))[source.shape[1] - 1]
            return super().forward(source, source_mask, target, attention)

    return Short, Limited()


@wrong("overfits", "after 400 updates on 8 pairs the loss is still")
def a_network_that_cannot_learn() -> Any:
    class Faint(Network):
        def forward(self, *given: Any, **more: Any) -> Any:
            return 1e-3 * super().forward(*given, **more)

    return Faint


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_model_is_caught_by_its_law(what: str) -> None:
    law, says, make = WRONG[what]
    with pytest.raises(BrokenLawError) as caught:
        LAW[law](case_of(*make()))
    assert says in caught.value.seen
    told = str(caught.value).splitlines()
    assert told[0].startswith(f"law {law}: ")
    assert any(line.startswith("seen: ") for line in told)
    assert told[-1].startswith("usual causes: ")


def declared(**parts: Any) -> Case:
    """A case whose registry has one plugin, which declares the right network as `parts` say."""
    given = {"summary": "a test", "config": f"{__name__}:Right"} | parts
    broken = given.pop("datasets", None)
    architecture = Architecture("right", paper="", network=f"{__name__}:Network", **given)

    @hookimpl
    def zoo_architectures() -> list[Architecture]:
        return [architecture]

    @hookimpl
    def zoo_datasets() -> Any:
        return broken

    plugins = Plugins()
    module = SimpleNamespace(zoo_architectures=zoo_architectures, zoo_datasets=zoo_datasets)
    plugins.add(module, Plugin("right", "zoo-right", "1.0"))
    return case("right", Registry(plugins))


def test_a_declaration_that_imports_torch_is_caught() -> None:
    # This module itself imports torch, and the config is declared to be in it.
    with pytest.raises(BrokenLawError, match=f"importing {__name__} imports torch"):
        LAW["declaring_imports_no_torch"](declared())


def test_a_plugin_that_is_not_whole_is_caught() -> None:
    check = LAW["the_plugin_is_whole"]
    check(declared())
    with pytest.raises(BrokenLawError, match="returned 3, which is not of type Dataset"):
        check(declared(datasets=[3]))
    with pytest.raises(BrokenLawError, match="TypeError: 'int' object is not iterable"):
        check(declared(datasets=3))
    with pytest.raises(BrokenLawError, match="the architecture's summary is one line"):
        check(declared(summary="two\nlines"))
    counted = declared()
    registry = cast("Registry", counted.registry)
    registry.models.add("right-one", Model("right-one", "right", "", 1, 19, 17))
    with pytest.raises(BrokenLawError, match="right-one has 2,752 parameters, not 1"):
        check(counted)


def test_every_law_is_proved() -> None:
    by_hand = {"declaring_imports_no_torch", "the_plugin_is_whole"}
    assert {law for law, _, _ in WRONG.values()} | by_hand == set(LAW)
