"""What a `config.json` of transformers says about T5, in the terms of this zoo."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from zoo.interop import Generation, Reasons, Source

ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu", "swish": "silu",
}  # fmt: skip
"""Activations by their names in transformers; its `gated-gelu` means `gelu_new`."""

SIZES = {
    "d_model": "dim", "d_kv": "head_dim", "d_ff": "feedforward_dim", "num_heads": "heads",
    "num_layers": "encoder_layers", "num_decoder_layers": "decoder_layers",
    "relative_attention_num_buckets": "buckets", "relative_attention_max_distance": "max_distance",
}  # fmt: skip
"""The sizes of the network, by their names in transformers."""

ALIASES = {
    "hidden_size": "d_model", "num_hidden_layers": "num_layers", "num_attention_heads": "num_heads",
    "head_dim": "d_kv",
}  # fmt: skip
"""Other names of transformers for sizes."""

DEFAULTS = {
    "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
    "dropout_rate": 0.1, "layer_norm_epsilon": 1e-6, "pad_token_id": 0, "eos_token_id": 1,
}  # fmt: skip
"""Values that transformers uses where `config.json` has none."""

LARGEST, DEEPEST = 65_536, 512
"""The largest size of the network, and the most layers; `T5Config` has the same limits."""

LARGEST_VOCABULARY = 10_000_000
"""The largest vocabulary."""

TRANSLATION = re.compile(r"translation_([A-Za-z]{2,3})_to_([A-Za-z]{2,3})")
"""The name of a task that translates."""

LONGEST_PREFIX, MOST_TASKS = 100, 100
"""The most characters of a task's prefix, and the most tasks."""


class Settings:
    """The configuration, read from `config.json` and `generation_config.json`.

    Attributes:
        config: the values of `T5Config` but `share`, which the weights decide.
        vocab_size: the rows of the embeddings.
        padding, end, start: ids in the foreign vocabulary; `start` is the decoder's first input.
    """

    def __init__(self, source: Source, reasons: Reasons) -> None:
        given = source.json("config.json")
        generation = "generation_config.json"
        search = source.json(generation) if source.has(generation) else None
        self.reasons = reasons
        self.generation, more = Generation.of(given, search), search or {}
        self.given: dict[str, Any] = {
            **DEFAULTS,
            **{k: v for k, v in given.items() if v is not None},
        }
        self._add_aliases()
        self.given.setdefault("num_decoder_layers", self.given.get("num_layers"))
        self.kind = str(self.given.get("model_type"))
        self.config: dict[str, Any] = {
            here: self._whole(name, 1, DEEPEST if here.endswith("layers") else LARGEST)
            for name, here in SIZES.items()
        }
        self.vocab_size = self._whole("vocab_size", 1, LARGEST_VOCABULARY)
        self._add_numbers()
        self._add_activation()
        self.config["layer_positions"] = self.kind == "umt5"
        self.config["scale_output"] = self._scaled()
        self.padding = self._id("pad_token_id")
        if isinstance(ends := self.given["eos_token_id"], list) and len(ends) == 1:
            self.given["eos_token_id"] = ends[0]
        self.end = self._id("eos_token_id")
        ends = more.get("eos_token_id")
        reasons.check(
            ends in (None, self.end, [self.end]),
            f"{generation} ends outputs at {_short(ends)}, not at eos_token_id {self.end} alone",
        )
        for name in ("decoder_start_token_id", "bos_token_id"):  # which `generate` reads
            if (start := more.get(name)) is not None:
                self.given["decoder_start_token_id"] = start
                break
        self.given.setdefault("decoder_start_token_id", self.padding)
        self.start = self._id("decoder_start_token_id")
        reasons.check(self.padding != self.end, "padding and end are one token")
        reasons.check(self.start != self.end, "the decoder starts with the end token")
        reasons.check(
            self.given.get("is_encoder_decoder", True) is True, "is_encoder_decoder is not true"
        )
        forced = self.generation.values.get("forced_bos_token_id")
        reasons.check(
            forced is None, "forced_bos_token_id: no token is forced here at the beginning"
        )
        reasons.check(
            "quantization_config" not in self.given,
            "its weights are quantized: use those of 16 or 32 bits",
        )

    def _add_aliases(self) -> None:
        for alias, name in ALIASES.items():
            if (value := self.given.get(alias)) is not None:
                own = self.given.setdefault(name, value)
                self.reasons.check(
                    own == value, f"{alias} {_short(value)} contradicts {name} {_short(own)}"
                )

    def _whole(self, name: str, least: int, most: int) -> int:
        value = self.given.get(name)
        if type(value) is int and least <= value <= most:
            return value
        self.reasons.add(f"{name} is {_short(value)}, not an integer from {least} to {most:,}")
        return least

    def _id(self, name: str) -> int:
        return self._whole(name, 0, self.vocab_size - 1)

    def _add_numbers(self) -> None:
        for name, here in (("dropout_rate", "dropout"), ("layer_norm_epsilon", "norm_epsilon")):
            value = self.given[name]
            if type(value) not in (int, float) or not 0 <= value < 1:
                self.reasons.add(f"{name} is {_short(value)}, not a number from 0 to 1")
                value = 0.1
            self.config[here] = float(value)

    def _add_activation(self) -> None:
        default = "relu" if self.kind == "t5" else "gated-gelu"
        name = self.given.get("feed_forward_proj", default)
        gate, _, activation = name.rpartition("-") if isinstance(name, str) else ("?", "", "")
        activation = "gelu_new" if name == "gated-gelu" else activation
        if gate not in ("", "gated") or activation not in ACTIVATIONS:
            self.reasons.add(f"feed_forward_proj is {_short(name)}, which T5 here does not have")
        stated = self.given.get("dense_act_fn", activation)
        self.reasons.check(
            stated == activation, f"dense_act_fn {_short(stated)} contradicts feed_forward_proj"
        )
        self.config["activation"] = ACTIVATIONS.get(activation, "relu")
        self.config["gated"] = gate == "gated"

    def _scaled(self) -> bool:
        """Return whether the decoder's outputs are scaled.

        T5 scales where it ties. transformers 5 states it (`scale_decoder_outputs`), for UMT5 from
        5.24 on; earlier versions have `tie_word_embeddings`, by default false for mT5 alone.
        Version 5 never scales mT5, and before 5.24 always scales UMT5.
        """
        stated = self.given.get("scale_decoder_outputs")
        if self.kind != "mt5" and stated is not None:
            self.reasons.check(type(stated) is bool, "scale_decoder_outputs is not true or false")
            return stated is True
        if self.kind != "t5" and self._by_version_5():
            return self.kind == "umt5"
        return self._tied()

    def _tied(self) -> bool:
        # a file of version 4 lacks the key where it is true
        return self.given.get("tie_word_embeddings", self.kind != "mt5") is True

    def _by_version_5(self) -> bool:
        version = str(self.given.get("transformers_version", "")).partition(".")[0]
        return version.isdecimal() and int(version) >= 5

    def tasks(self) -> dict[str, tuple[str, str]]:
        """Return the prefixes of `task_specific_params`, each with the codes of its languages.

        The name of a translation has them, such as `translation_en_to_de`; others have none.
        """
        given, tasks = self.given.get("task_specific_params"), dict[str, tuple[str, str]]()
        entries = given.items() if isinstance(given, dict) else ()
        for name, values in islice(entries, MOST_TASKS):
            prefix = values.get("prefix") if isinstance(values, dict) else None
            if not isinstance(prefix, str) or len(prefix) > LONGEST_PREFIX:
                continue
            if prefix.strip() and prefix.isprintable():
                match = TRANSLATION.fullmatch(name)
                tasks[prefix] = (match[1], match[2]) if match else ("", "")
        return tasks

    def check_own_output(self, reasons: Reasons) -> None:
        """Add a reason if it is unclear whether an output that differs from the embedding is used.

        Versions of transformers before 5 ignore it if `tie_word_embeddings` is true.
        """
        clear = not self._tied() or self._by_version_5() or "scale_decoder_outputs" in self.given
        reasons.check(
            clear, "tie_word_embeddings is true, but lm_head.weight differs from shared.weight"
        )

    def rows(self, unknown: int) -> list[int]:
        """Return the foreign id of each entry here: padding, begin, end, unknown, then the others.

        The decoder's first input is the begin token. Where it is padding or unknown as well, its
        row is there twice.
        """
        first = [self.padding, self.start, self.end, unknown]
        return first + [i for i in range(self.vocab_size) if i not in first]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
