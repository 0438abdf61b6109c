"""The laws of learning rate schedules, for the tests of a plugin that brings one.

test_law = zoo.testing.schedule_conformance({"name": "waves", "period": 50})
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zoo.registry.open_shelf import Named
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry, default_registry
from zoo.testing.law import BrokenLawError, LawOf, law_of
from zoo.testing.outcomes import conformance_test
from zoo.training.parts import Parts
from zoo.training.schedule import CheckedRate, Progress, make_schedule

STEPS, EPOCH, WIDTH = 60, 12, 32
"""Updates of a run, updates of an epoch, and the width of the network."""

RISE = 1.1
"""How much larger the sum of all rates must be for a rate and a factor that are twice as large."""


@dataclass(frozen=True)
class ScheduleCase:
    """A schedule, by name and options, for runs of 60 updates."""

    named: Named
    registry: Registry

    def make(self, **recipe: Any) -> CheckedRate:
        """Return the schedule of a recipe with some values."""
        values = {"learning_rate": 0.01, "warmup": 10, "steps": STEPS, **recipe}
        return make_schedule(
            self.registry, Recipe.parse({**values, "schedule": self.named}, "the schedule")
        )

    def rates(self, **recipe: Any) -> list[float]:
        """Return the rate of each update of a run."""
        return rates(self.make(**recipe))


def rates(schedule: CheckedRate, steps: Sequence[int] = range(1, STEPS + 1)) -> list[float]:
    """Return the rates of some updates of a run, which are asked for in order."""
    return [
        schedule(Progress(step, (step - 1) / STEPS, WIDTH, (step - 1) // EPOCH, step % EPOCH // 4))
        for step in steps
    ]


def schedule_case(named: Named, registry: Registry | None = None) -> ScheduleCase:
    """Return the case of a schedule."""
    return ScheduleCase(named, registry or default_registry())


@law_of(
    causes="a division by a warm-up of 0; a decay that falls below 0 at the end of the run, or "
    "beyond it; a tensor in place of a number"
)
def rates_are_numbers(case: ScheduleCase) -> None:
    """Every update gets a finite rate of 0 or more, for any warm-up, and after the last update."""
    for warmup in (0, 10, 10 * STEPS):
        rates(case.make(warmup=warmup), range(1, STEPS + 3))


@law_of(
    causes="a rate that is written into the code; a rate of 0 at every update; integer division",
    requires="rates_are_numbers",
)
def recipe_sets_the_rate(case: ScheduleCase) -> None:
    """A larger `learning_rate` and `factor` in the recipe give larger rates."""
    once, twice = sum(case.rates()), sum(case.rates(learning_rate=0.02, factor=2.0))
    if not twice >= RISE * once > 0:
        raise BrokenLawError(
            f"the rates of a run add up to {once:.3g}, with a learning_rate and a factor that are "
            f"twice as large to {twice:.3g}; the threshold is {RISE} times as much, and above 0"
        )


@law_of(
    causes="random numbers; the clock; a value kept on the class or in the module, which two "
    "schedules share",
    requires="rates_are_numbers",
)
def equal_runs_have_equal_rates(case: ScheduleCase) -> None:
    """Two schedules of one recipe, called in turn, give the rates that each gives alone."""
    alone, one, other = case.rates(), case.make(), case.make()
    for step in range(1, STEPS + 1):
        pair = [*rates(one, [step]), *rates(other, [step])]
        if pair != [alone[step - 1]] * 2:
            raise BrokenLawError(
                f"at update {step} two schedules give {pair[0]:.6g} and {pair[1]:.6g}, and one "
                f"alone {alone[step - 1]:.6g}; they must be equal"
            )


@law_of(
    causes="values kept on the object without `state_dict` and `load_state_dict`; a value that one "
    "of the two leaves out; values that JSON lacks",
    requires="equal_runs_have_equal_rates",
)
def resumed_run_has_the_same_rates(case: ScheduleCase) -> None:
    """A schedule that is saved in the middle of a run and read back gives the same rates."""
    half, schedule, resumed = STEPS // 2, case.make(), case.make()
    rates(schedule, range(1, half + 1))
    tensors, values = Parts({"schedule": schedule.rate}).state()
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    Parts({"schedule": resumed.rate}).load(copies, json.loads(json.dumps(values)))
    rest = range(half + 1, STEPS + 1)
    expected, observed = rates(schedule, rest), rates(resumed, rest)
    if observed != expected:
        step, one, other = next(
            each for each in zip(rest, observed, expected, strict=True) if each[1] != each[2]
        )
        raise BrokenLawError(
            f"the resumed run has the rate {one:.6g} at update {step}, not {other:.6g}; they must "
            "be equal"
        )


SCHEDULE_LAWS = [
    rates_are_numbers,
    recipe_sets_the_rate,
    equal_runs_have_equal_rates,
    resumed_run_has_the_same_rates,
]
"""All laws of schedules, the most basic first."""


def schedule_conformance(
    named: Named, registry: Registry | None = None
) -> Callable[[LawOf[ScheduleCase]], None]:
    """Return a test of every law of schedules, for one that an installed plugin brings.

    `named` is its name, or a table with its options, as in a recipe.
    """
    return conformance_test(SCHEDULE_LAWS, lambda: schedule_case(named, registry))
