"""Read checkpoints that other projects wrote with `torch.save`, without running what they say.

`torch.load(weights_only=True)` reads them. Classes that such checkpoints hold besides tensors, such
as `argparse.Namespace`, are replaced by `Harmless`, which only keeps its attributes. A file that
names anything else is refused before it is read.
"""

from __future__ import annotations

import ast
import itertools
import re
import threading
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.errors import ConversionError
from zoo.interop.pickle_scan import names_in
from zoo.interop.settings import brief
from zoo.interop.unusable import check_content

MOST_VALUES = 1_000_000
"""The most values of the settings in a checkpoint."""

RATIO = 10
"""How many times larger than its file the weights may be: they hardly shrink, and few are tied."""

MOST_ITEMS = 512
"""The most items of a list that a string describes."""


class Harmless:
    """What stands for an object of another project: its attributes, and no behaviour."""

    attributes: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Harmless:
        """Return an object without attributes; a pickle need not call anything else."""
        made = super().__new__(cls)
        made.attributes = {}
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Accept any arguments."""

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, tuple) and state and isinstance(state[0], dict):
            state = state[0]
        self.attributes = {str(k): v for k, v in state.items()} if isinstance(state, dict) else {}


def _table(*args: Any) -> dict[Any, Any]:
    """Stand for `collections.defaultdict`: a missing key stays missing."""
    return {}


OBJECTS = (
    "argparse.Namespace",
    "types.SimpleNamespace",
    "functools.partial",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "numpy.dtype",
    "pathlib.Path",
    "pathlib.PosixPath",
    "pathlib.WindowsPath",
    "pathlib._local.PosixPath",
    "pathlib._local.WindowsPath",
    "typing.Any",
    "fairseq.data.dictionary.Dictionary",
    "fairseq.meters.AverageMeter",
    "fairseq.meters.TimeMeter",
    "fairseq.meters.StopwatchMeter",
    "fairseq.logging.meters.AverageMeter",
    "fairseq.logging.meters.TimeMeter",
    "fairseq.logging.meters.StopwatchMeter",
    "fairseq.logging.meters.MetersDict",
    "fairseq.dataclass.constants.DDPBackend",
    "omegaconf.dictconfig.DictConfig",
    "omegaconf.listconfig.ListConfig",
    "omegaconf.base.ContainerMetadata",
    "omegaconf.base.Metadata",
    "omegaconf.nodes.AnyNode",
    "omegaconf.nodes.BooleanNode",
    "omegaconf.nodes.FloatNode",
    "omegaconf.nodes.IntegerNode",
    "omegaconf.nodes.StringNode",
    "torchtext.vocab.Vocab",
    "torchtext.vocab._default_unk_index",
    "torchtext.data.field.Field",
    "torchtext.data.field.RawField",
    "torchtext.data.field.LabelField",
    "torchtext.data.utils.default_tokenizer",
    "torchtext.data.utils._split_tokenizer",
    "onmt.inputters.text_dataset.TextMultiField",
    "onmt.inputters.text_dataset._feature_tokenize",
    "onmt.inputters.inputter.make_src",
    "onmt.inputters.inputter.make_tgt",
    "onmt.inputters.inputter.AlignField",
    "onmt.inputters.fields.AlignField",
    "onmt.inputters.fields._feature_tokenize",
)
"""Classes and functions that these checkpoints name; each is replaced and none is imported."""

STAND_INS: Mapping[str, Any] = {
    **{name: type(name.rpartition(".")[2], (Harmless,), {}) for name in OBJECTS},
    "collections.defaultdict": _table,
    "builtins.dict": _table,
    "builtins.list": type("list", (Harmless,), {}),
    "builtins.str": type("str", (Harmless,), {}),
    "builtins.int": type("int", (Harmless,), {}),
    "builtins.float": type("float", (Harmless,), {}),
    "builtins.bool": type("bool", (Harmless,), {}),
}
"""What replaces each name in a file."""

# What torch reads itself, without what would allocate any size that a file asks for.
TENSORS = frozenset(
    {
        "_codecs.encode",
        "builtins.set",
        "collections.Counter",
        "collections.OrderedDict",
        "torch.Size",
        "torch._utils._rebuild_parameter",
        "torch._utils._rebuild_tensor",
        "torch._utils._rebuild_tensor_v2",
        "torch.device",
        "torch.nn.parameter.Parameter",
        "torch.serialization._get_layout",
    }
)
STORAGES = ("Double", "Float", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
          "bool")  # fmt: skip
READ_BY_TORCH = (
    TENSORS | {f"torch.{name}Storage" for name in STORAGES} | {f"torch.{name}" for name in DTYPES}
)

OTHER_TENSORS = re.compile(
    r"torch\.(\w+Storage|storage\.\w+Storage|float8_\w+|uint\d+|complex\d+|q\w+|per_\w+_affine"
    r"|_utils\._rebuild_\w*tensor\w*)"
)
"""Names of torch's other types of tensors: quantized, sparse, complex, of 8 bits."""

_LOCK = threading.Lock()  # torch keeps the list of safe names per process


def read_pickle(path: Path, stand_ins: Mapping[str, Any] = STAND_INS) -> Any:
    """Return what `torch.save` wrote, with objects replaced by `Harmless`; runs no code of it.

    Tensors of files in torch's zip format are mapped to memory, not read.

    Args:
        path: the file.
        stand_ins: what replaces the names of other projects; with none of them, only tensors and
            plain values are read.

    Raises:
        ConversionError: the file names anything but tensors and known classes, is damaged or
            incomplete, or larger in memory than on disk.
    """
    what = f"{path} cannot be imported"
    check_content(path)
    try:
        refused = sorted(names_in(path, what) - READ_BY_TORCH - set(stand_ins))
        if refused and all(map(OTHER_TENSORS.fullmatch, refused)):
            why = f"it has tensors of a type that is not read: {', '.join(refused[:5])}"
            raise ConversionError(what, why, "Use weights of 16 or 32 bits")
        if refused:
            more = f" and {len(refused) - 5} more" if len(refused) > 5 else ""
            raise ConversionError(
                what,
                f"its pickle names {', '.join(refused[:5])}{more}: reading it could run code",
                "Do not open this file with other programs either",
            )
        safe = torch.serialization.safe_globals([(v, k) for k, v in stand_ins.items()])
        with _LOCK, safe, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mapped = zipfile.is_zipfile(path)
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except (ConversionError, MemoryError):
        raise
    except Exception as error:  # torch, pickle and zipfile raise whatever the bytes lead to
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
        raise ConversionError(what, f"it is not a checkpoint of torch.save: {reason}") from None
    _check_sizes(content, path.stat().st_size, what)
    return content


def _check_sizes(content: Any, length: int, what: str) -> None:
    """Refuse tensors that repeat a storage: a small file could describe terabytes."""
    total = 0
    for tensor in _tensors(content):
        size = tensor.numel() * tensor.element_size()
        total += size
        if tensor.layout != torch.strided or size > tensor.untyped_storage().nbytes():
            raise ConversionError(what, f"a tensor of shape {tuple(tensor.shape)} is not stored")
    if total > RATIO * length + 1_000_000:
        raise ConversionError(what, f"{length:,} bytes claim to hold {total:,}: tensors are shared")


def _tensors(content: Any) -> Iterator[Tensor]:
    seen: set[int] = set()
    stack = [content]
    while stack:
        value = stack.pop()
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, dict | list | tuple | set | Harmless) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, Harmless):
                stack.append(value.attributes)
            else:
                stack.extend(value.values() if isinstance(value, dict) else value)


def plain(value: Any) -> Any:
    """Return namespaces and configuration containers as dicts and lists of plain values.

    Raises:
        ConversionError: there are more than 1,000,000 values; one that is used several times counts
            as often.
    """
    return _plain(value, 0, itertools.count(1))


def _plain(value: Any, depth: int, counter: Iterator[int]) -> Any:
    if next(counter) > MOST_VALUES:
        raise ConversionError(
            "a checkpoint cannot be imported", f"its settings have more than {MOST_VALUES:,} values"
        )
    if depth > 20:
        return None
    if isinstance(value, Harmless):
        attributes = value.attributes
        if "_content" in attributes:  # OmegaConf's containers
            return _plain(attributes["_content"], depth + 1, counter)
        if "_val" in attributes:  # and its values
            return _plain(attributes["_val"], depth + 1, counter)
        return {key: _plain(each, depth + 1, counter) for key, each in attributes.items()}
    if isinstance(value, dict):
        return {_key(k): _plain(v, depth + 1, counter) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, depth + 1, counter) for each in value]
    return brief(value) if isinstance(value, Tensor) else value  # a tensor is no setting


def _key(value: Any) -> str:
    value = value.attributes.get("_val") if isinstance(value, Harmless) else value
    return value if isinstance(value, str) else brief(value)


def literal(text: str) -> Any:
    """Return the value of a string such as `[(512, 3)] * 4 + [(768, 5)]`, without `eval`.

    Literals, sums of lists, and lists times a number are understood.

    Raises:
        ValueError: the string is anything else, or describes more than 512 items.
    """
    try:
        if len(text) > 10_000:
            raise ValueError
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{text[:60]!r} is not a list of numbers") from None


def _value(node: ast.expr) -> Any:
    if not isinstance(node, ast.BinOp):
        value = ast.literal_eval(node)
    else:
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Mult) and isinstance(left, int):
            left, right = right, left
        lists = isinstance(left, list | tuple)
        if isinstance(node.op, ast.Add) and lists and type(left) is type(right):
            value = left + right
        elif isinstance(node.op, ast.Mult) and lists and type(right) is int:
            if not 0 <= right * len(left) <= MOST_ITEMS:
                raise ValueError
            value = left * right
        else:
            raise ValueError
    if isinstance(value, list | tuple) and len(value) > MOST_ITEMS:
        raise ValueError
    return value
