"""Measure the peak memory of imports: checkpoints of some 650 MB with random weights, by format.

    python -m tests.campaigns.formats.memory [FORMAT …]

The checkpoints are written in the layouts of the tests, with larger sizes; no other project is
needed. Results stand in `memory.md`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tests.interop import (
    huggingface,
    marian_folder,
    opennmt_layout,
    t5_folder,
    test_fairseq,
    test_fsmt,
    test_joeynmt,
)

D, INNER, VOCAB = 1024, 8192, 16_000
SIZES = {"D": D, "HEADS": 16, "INNER": INNER, "SIZES": (VOCAB, VOCAB)}
FACTOR = 2
"""How many times the size of the files an import may take."""

FOLDER_SIZES: dict[str, Any] = {
    "d_model": D, "encoder_layers": 3, "decoder_layers": 4, "encoder_attention_heads": 16,
    "decoder_attention_heads": 16, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER,
}  # fmt: skip
T5_SIZES = {"d_model": D, "d_kv": 64, "d_ff": INNER, "num_heads": 16, "num_layers": 3,
            "num_decoder_layers": 4}  # fmt: skip


def fairseq_transformer(folder: Path) -> None:
    sides = ("encoder", "decoder")
    settings = {f"{side}_embed_dim": D for side in sides}
    settings |= {f"{side}_ffn_embed_dim": INNER for side in sides}
    settings |= {f"{side}_attention_heads": 16 for side in sides}
    settings |= {"encoder_layers": 2, "decoder_layers": 3}
    test_fairseq.write(folder, test_fairseq.TorchTransformer({}).state(), settings)


def fairseq_fconv(folder: Path) -> None:
    settings = {"encoder_embed_dim": 8, "decoder_embed_dim": 8, "decoder_out_embed_dim": 8,
                "max_source_positions": 14, "max_target_positions": 14,
                "encoder_layers": "[(2048, 3)] * 3", "decoder_layers": "[(2048, 3)] * 3",
                "decoder_attention": "True"}  # fmt: skip
    layers = [(2048, 3)] * 3
    test_fairseq.write(folder, test_fairseq.TorchFConv(layers, layers).state(False), settings)


def joeynmt_transformer(folder: Path) -> None:
    network = test_joeynmt.JoeyTransformer({"encoder_normalize_before": True, "eps": 1e-6})
    test_joeynmt.write(folder, network.state(), test_joeynmt.transformer())


def opennmt_transformer(folder: Path, apart: bool = False) -> None:
    opt = opennmt_layout.TRANSFORMER | {"hidden_size": D, "word_vec_size": D, "heads": 16,
                                        "transformer_ff": INNER}  # fmt: skip
    opennmt_layout.write(folder, opennmt_layout.Transformer({}).state(), opt, apart=apart)


def opennmt_safetensors(folder: Path) -> None:
    opennmt_transformer(folder, apart=True)


def opennmt_rnn(folder: Path) -> None:
    opennmt_layout.Recurrent.WIDTH = 2048
    network = opennmt_layout.Recurrent({"attention": "general"})
    opennmt_layout.write(folder, network.state(), network.settings())


def marian(folder: Path) -> None:
    huggingface.marian(folder / "inner", **FOLDER_SIZES)


def marian_pickle(folder: Path) -> None:
    marian(folder)
    file = folder / "inner" / "model.safetensors"
    torch.save(load_file(file), file.with_name("pytorch_model.bin"))
    file.unlink()


def marian_npz(folder: Path) -> None:
    sizes: dict[str, Any] = {"dim-emb": D, "transformer-heads": 16, "enc-depth": 3, "dec-depth": 4,
             "transformer-dim-ffn": INNER}  # fmt: skip
    marian_folder.write(folder / "inner", **sizes)


def fsmt(folder: Path) -> None:
    test_fsmt.fsmt(folder / "inner", **FOLDER_SIZES)


def t5(folder: Path) -> None:
    t5_folder.write_folder(folder / "inner", T5_SIZES)


WRITERS: dict[str, Callable[[Path], None]] = {
    "fairseq-transformer": fairseq_transformer,
    "fairseq-fconv": fairseq_fconv,
    "joeynmt-transformer": joeynmt_transformer,
    "opennmt-transformer": opennmt_transformer,
    "opennmt-transformer, safetensors": opennmt_safetensors,
    "opennmt-rnn": opennmt_rnn,
    "marian": marian,
    "marian, pytorch_model.bin": marian_pickle,
    "marian-npz": marian_npz,
    "fsmt": fsmt,
    "t5": t5,
}


def write(name: str, folder: Path) -> None:
    """Write a checkpoint with the sizes of this campaign."""
    for module in (test_fairseq, test_joeynmt, opennmt_layout):
        for constant, value in SIZES.items():
            if hasattr(module, constant):
                setattr(module, constant, value)
    WRITERS[name](folder)


def measure(source: Path, out: Path) -> tuple[int, float]:
    """Import a folder in a process of its own; return its peak memory in bytes, and seconds."""
    start = time.monotonic()
    command = [sys.executable, "-m", "zoo", "import", str(source), "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return usage.ru_maxrss * 1024, time.monotonic() - start


def main(names: list[str]) -> None:
    large: list[Any] = []
    for name in names or WRITERS:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "source"
            folder.mkdir()
            writer = [sys.executable, "-m", "tests.campaigns.formats.memory", "--write", name]
            subprocess.run([*writer, str(folder)], check=True)
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            source = next((each for each in folder.iterdir() if each.is_dir()), folder)
            peak, seconds = measure(source, Path(temporary) / "out")
        print(f"| {name} | {size / 1e6:.0f} | {peak / 1e6:.0f} | {peak / size:.2f} | "
              f"{seconds:.0f} |", flush=True)  # fmt: skip
        if peak > FACTOR * size:
            large.append(name)
    if large:
        raise SystemExit(f"more than {FACTOR} times the size: {', '.join(large)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(sys.argv[2], Path(sys.argv[3]))
    else:
        main(sys.argv[1:])
