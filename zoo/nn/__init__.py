"""The contract of networks, and the parts they are built from: layers, caches, functions.

Plugin authors import these names; everything else in this package is private.
"""

from zoo.nn.build import create_model
from zoo.nn.cache import Cache
from zoo.nn.contract import (
    BEGIN,
    END,
    PADDING,
    UNKNOWN,
    Attention,
    AttentionKind,
    BeamSteps,
    Decoded,
    Encoded,
    GreedySteps,
    NonAutoregressive,
    Output,
    Seq2Seq,
    Step,
)
from zoo.nn.device import exact_device
from zoo.nn.dropout import Dropout
from zoo.nn.kernels import few_queries
from zoo.nn.key_value_cache import KeyValueCache
from zoo.nn.linear import Linear, linear
from zoo.nn.once import once_differentiable
from zoo.nn.padded import run_padded, run_recurrent, without_end
from zoo.nn.recurrent import recurrent_linear
from zoo.nn.softmax import softmax, softmax_gradient
from zoo.nn.sources import split_sources
from zoo.nn.stack_parts import LayerParts, StackParts
from zoo.nn.stacks import Sources, beam_steps, decoder_step, encoder_sources, greedy_steps
from zoo.nn.sublayers import Source, add_norm, attention_sublayer, feedforward_sublayer
from zoo.nn.tanh import tanh
from zoo.nn.tree import Tree, gather

__all__ = [
    "BEGIN",
    "END",
    "PADDING",
    "UNKNOWN",
    "Attention",
    "AttentionKind",
    "BeamSteps",
    "Cache",
    "Decoded",
    "Dropout",
    "Encoded",
    "GreedySteps",
    "KeyValueCache",
    "LayerParts",
    "Linear",
    "NonAutoregressive",
    "Output",
    "Seq2Seq",
    "Source",
    "Sources",
    "StackParts",
    "Step",
    "Tree",
    "add_norm",
    "attention_sublayer",
    "beam_steps",
    "create_model",
    "decoder_step",
    "encoder_sources",
    "exact_device",
    "feedforward_sublayer",
    "few_queries",
    "gather",
    "greedy_steps",
    "linear",
    "once_differentiable",
    "recurrent_linear",
    "run_padded",
    "run_recurrent",
    "softmax",
    "softmax_gradient",
    "split_sources",
    "tanh",
    "without_end",
]
