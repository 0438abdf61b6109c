"""All laws of the contract, in the order in which a network's faults are best met.

They run in float64 on the architecture's example config, with five sentences (unlike any example's
layer count), sources of three tokens and more, and a beam of three.
"""

from __future__ import annotations

from zoo.testing.declaring import (
    config_round_trips,
    declaring_imports_no_torch,
    the_plugin_is_whole,
)
from zoo.testing.decoding import (
    an_old_state_gives_its_old_answer,
    attention_sums_to_one,
    shapes,
    step_equals_forward,
    step_of_gathered_is_gathered_step,
    two_batches_go_side_by_side,
)
from zoo.testing.law import Law
from zoo.testing.places import (
    every_precision_works,
    no_tensor_is_left_on_another_device,
    randomness_is_seeded,
)
from zoo.testing.reading import (
    future_changes_nothing,
    limits_are_real,
    padding_changes_nothing,
    source_changes_the_answer,
)
from zoo.testing.weights import (
    every_parameter_gets_a_gradient,
    no_weights_but_parameters,
    overfits,
    table_is_the_network,
    weights_round_trip,
)

LAWS: list[Law] = [
    the_plugin_is_whole,
    declaring_imports_no_torch,
    config_round_trips,
    shapes,
    table_is_the_network,
    no_weights_but_parameters,
    padding_changes_nothing,
    future_changes_nothing,
    source_changes_the_answer,
    limits_are_real,
    step_equals_forward,
    step_of_gathered_is_gathered_step,
    an_old_state_gives_its_old_answer,
    two_batches_go_side_by_side,
    attention_sums_to_one,
    every_parameter_gets_a_gradient,
    weights_round_trip,
    randomness_is_seeded,
    no_tensor_is_left_on_another_device,
    every_precision_works,
    overfits,
]
