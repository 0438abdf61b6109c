"""Make a checkpoint with random weights and a released checkpoint's tokenizer: for speed alone."""

import json
import shutil
from pathlib import Path

import torch

import zoo
from zoo.checkpoint.tensors import write_tensors
from zoo.data.tokenizer import Tokenizer
from zoo.registry.registry import default_registry

FROM = Path(__file__).parents[2] / "cards/checkpoints/transformer-tiny.multi30k-en-de"


def make(folder: Path, model: str = "transformer-6x6") -> None:
    """Write the checkpoint."""
    torch.manual_seed(1)
    folder.mkdir(parents=True)
    tokenizer = Tokenizer.load(FROM / "tokenizer.json")
    made = zoo.create_model(model, source_vocab=tokenizer.size, target_vocab=tokenizer.size)
    shutil.copy(FROM / "tokenizer.json", folder)
    write_tensors(folder / "model.safetensors", dict(made.named_parameters()))
    description = json.loads((FROM / "config.json").read_text())
    config = default_registry().config(model)
    description.update(model=model, config=config.model_dump(mode="json"))
    (folder / "config.json").write_text(json.dumps(description))
