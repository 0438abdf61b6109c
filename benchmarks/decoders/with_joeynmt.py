"""JoeyNMT in `benchmarks/decode.py`: its RNN with additive attention, of equal size."""

from __future__ import annotations

from importlib.metadata import version
from types import SimpleNamespace

import torch
from common import BEGIN, END, PADDING, THREADS, UNKNOWN, VOCAB

from common import Batch, Decode, Job, before_end, measure, padded  # isort: skip
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary

TO_JOEYNMT = {UNKNOWN: 0, PADDING: 1, BEGIN: 2, END: 3}
"""JoeyNMT's ids of the special tokens; all others are the same."""


def vocabulary() -> Vocabulary:
    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None,
        unk_id=TO_JOEYNMT[UNKNOWN], pad_id=TO_JOEYNMT[PADDING], bos_id=TO_JOEYNMT[BEGIN],
        eos_id=TO_JOEYNMT[END], lang_tags=[],
    )  # fmt: skip
    return Vocabulary([f"w{i}" for i in range(VOCAB - 4)], special)


def make(job: Job) -> tuple[Decode, int]:
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    sizes = job.sizes
    shared = {
        "type": "recurrent",
        "rnn_type": "lstm",
        "num_layers": 1,
        "embeddings": {"embedding_dim": sizes["embedding"]},
    }
    encoder = {"hidden_size": sizes["encoder"], "bidirectional": True}
    decoder = {
        "hidden_size": sizes["hidden"],
        "attention": "bahdanau",
        "input_feeding": True,
        "init_hidden": "bridge",
    }
    config = {"encoder": {**shared, **encoder}, "decoder": {**shared, **decoder}}
    model = build_model(config, vocabulary(), vocabulary()).eval().to(job.device)

    def decode(batch: Batch) -> Batch:
        longest_first = [
            [TO_JOEYNMT.get(token, token) for token in tokens] for tokens in batch[::-1]
        ]
        source = padded(longest_first, TO_JOEYNMT[PADDING]).to(job.device)
        mask = source != TO_JOEYNMT[PADDING]
        inputs = SimpleNamespace(
            src=source, src_mask=mask[:, None], src_length=mask.sum(1), has_trg=False,
            trg_prompt_mask=None,
        )  # fmt: skip
        outputs, _, _ = search(
            model, inputs, max_output_length=job.most, beam_size=job.beam, beam_alpha=0.0,
            min_output_length=job.least - 1, generate_unk=False,
        )  # fmt: skip
        return [before_end(tokens, TO_JOEYNMT[END]) for tokens in outputs[::-1].tolist()]

    return decode, sum(weight.numel() for weight in model.parameters())


measure("joeynmt", version("joeynmt"), make)
