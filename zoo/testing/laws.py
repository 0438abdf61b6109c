"""All laws of the contract, ordered so that the first failure is the most basic one.

They run in float64 on the architecture's example config, with five sentences (a number that no
example uses for its layers), sources of at least three tokens, and a beam of three;
`length_limits_hold` has shorter ones too, `shapes` and `step_equals_forward` a sentence alone, and
`padding_is_ignored` and `every_source_token_matters` a long one.
"""

from __future__ import annotations

from zoo.testing.attention import (
    attention_flag_fills_a_field,
    attention_sums_to_one,
    forward_gives_every_attention,
)
from zoo.testing.computation import (
    every_precision_trains,
    every_precision_works,
    tensors_follow_the_device,
    training_follows_translation,
)
from zoo.testing.declaration import (
    config_round_trips,
    declaration_imports_no_torch,
    plugin_has_no_problems,
)
from zoo.testing.decoding import (
    arguments_stay_as_they_are,
    batches_are_independent,
    gather_commutes_with_step,
    logits_are_finite,
    results_are_named_tuples,
    shapes,
    step_equals_forward,
    step_is_pure,
)
from zoo.testing.law import Law
from zoo.testing.losses import losses_are_sums_of_training
from zoo.testing.masking import (
    every_source_token_matters,
    future_is_ignored,
    length_limits_hold,
    padding_is_ignored,
)
from zoo.testing.own_search import (
    decode_gives_targets,
    decode_ignores_the_batch,
    target_gives_its_length_alone,
)
from zoo.testing.parameters import (
    every_parameter_gets_a_gradient,
    learns_a_copy_task,
    network_has_only_parameters,
    parameter_table_matches_network,
    weights_round_trip,
)
from zoo.testing.process import process_settings_stay
from zoo.testing.randomness import randomness_is_seeded
from zoo.testing.several_steps import beam_steps_are_steps, greedy_steps_are_steps

LAWS: list[Law] = [
    plugin_has_no_problems,
    declaration_imports_no_torch,
    config_round_trips,
    results_are_named_tuples,
    shapes,
    logits_are_finite,
    parameter_table_matches_network,
    network_has_only_parameters,
    randomness_is_seeded,
    process_settings_stay,
    arguments_stay_as_they_are,
    padding_is_ignored,
    future_is_ignored,
    every_source_token_matters,
    length_limits_hold,
    step_is_pure,
    batches_are_independent,
    step_equals_forward,
    gather_commutes_with_step,
    greedy_steps_are_steps,
    beam_steps_are_steps,
    decode_gives_targets,
    decode_ignores_the_batch,
    target_gives_its_length_alone,
    attention_flag_fills_a_field,
    forward_gives_every_attention,
    attention_sums_to_one,
    losses_are_sums_of_training,
    every_parameter_gets_a_gradient,
    weights_round_trip,
    tensors_follow_the_device,
    every_precision_works,
    every_precision_trains,
    training_follows_translation,
    learns_a_copy_task,
]
