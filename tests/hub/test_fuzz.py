"""Reading any content of any file returns a value or raises a ZooError of one line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zoo
from zoo.checkpoint.card import split_card
from zoo.checkpoint.tensors import read_tensors
from zoo.data.tokenizer import Tokenizer
from zoo.errors import HubError, ZooError
from zoo.files import parse_json, read_json
from zoo.hub.metadata import check_card
from zoo.registry import catalogue
from zoo.registry.address import Address, is_inside
from zoo.registry.plugins import Plugins
from zoo.registry.registry import Registry

bounded = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from([2**63, -1, 10**30, "", "../x", "\0", "float32", "F32", "rnnsearch"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=10,
)  # fmt: skip


def returns_or_raises_zoo_error(call: Callable[[], Any]) -> None:
    message = ""
    try:
        call()
    except ZooError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 5_000


@st.composite
def changed(draw: st.DrawFn, text: str) -> str:
    """Draw a JSON text with some values or characters replaced."""
    value = json.loads(text)
    for _ in range(draw(st.integers(1, 3))):
        container: Any = value
        while True:
            keys = list(container) if isinstance(container, dict) else list(range(len(container)))
            if not keys:
                break
            key = draw(st.sampled_from(keys[:40]))
            item = container[key]
            if isinstance(item, dict | list) and item and draw(st.booleans()):
                container = item
                continue
            if draw(st.booleans()) and isinstance(container, dict):
                del container[key]
            else:
                container[key] = draw(values)
            break
    written = json.dumps(value)
    if draw(st.booleans()):
        start = draw(st.integers(0, len(written)))
        inserted = draw(st.text(max_size=4))
        end = start + draw(st.integers(0, 4))
        written = written[:start] + inserted + written[end:]
    return written


@pytest.fixture
def copied(checkpoint: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoint, tmp_path / "copied"))


@bounded
@given(st.data())
def test_config(copied: Path, data: st.DataObject) -> None:
    original = (copied / "config.json").read_text()
    text = data.draw(changed(original))
    try:
        (copied / "config.json").write_text(text, errors="surrogatepass")
        returns_or_raises_zoo_error(lambda: zoo.load(copied))
    finally:
        (copied / "config.json").write_text(original)


@bounded
@given(st.data())
def test_tokenizer(copied: Path, data: st.DataObject) -> None:
    file = copied / "source.tokenizer.json"
    original = file.read_text()
    text = data.draw(changed(original))
    try:
        file.write_text(text, errors="surrogatepass")
        returns_or_raises_zoo_error(lambda: Tokenizer.load(file).encode(["the dog", "ﬁ\U0001f600"]))
    finally:
        file.write_text(original)


@bounded
@given(st.data())
def test_safetensors_header(copied: Path, data: st.DataObject) -> None:
    file = copied / "model.safetensors"
    original = file.read_bytes()
    length = int.from_bytes(original[:8], "little")
    header = data.draw(changed(original[8 : 8 + length].decode())).encode(errors="replace")
    stated_length = data.draw(st.sampled_from([len(header), len(header) + 1, 0, 2**63, 25_000_001]))
    body = original[8 + length :]
    content = (
        stated_length.to_bytes(8, "little")
        + header
        + data.draw(st.sampled_from([body, b"", body[1:]]))
    )
    try:
        file.write_bytes(content)
        returns_or_raises_zoo_error(lambda: zoo.load(copied))
    finally:
        file.write_bytes(original)


@bounded
@given(st.binary(max_size=200))
def test_any_bytes_as_any_file(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    for read in (read_json, read_tensors, Tokenizer.load):
        returns_or_raises_zoo_error(lambda read=read: read(file))  # type: ignore[misc]  # bound in the loop
    (tmp_path / "README.md").write_bytes(b"---\n" + content + b"\n---\n")
    returns_or_raises_zoo_error(lambda: check_card(tmp_path))


@bounded
@given(st.text(max_size=200) | values.map(lambda value: json.dumps(value)))
def test_front_matter(text: str) -> None:
    returns_or_raises_zoo_error(lambda: split_card(f"---\n{text}\n---\nbody", "a card"))


DIFFICULT = [
    "a: &a [b]\nc: [*a, *a]", "!!python/object/apply:os.system [ls]", "- " * 5000,
    "a: 2001-99-99", "{" * 5000, "? [a]\n: b", "<<: 3", "tags: {a: b}", "model-index: 3",
    "a: !!binary x",
]  # fmt: skip


@pytest.mark.parametrize("text", DIFFICULT)
def test_difficult_front_matter(text: str) -> None:
    returns_or_raises_zoo_error(lambda: split_card(f"---\n{text}\n---\nbody", "a card"))


entries = st.dictionaries(
    st.sampled_from([*catalogue.CHECKPOINT_KEYS, *catalogue.MODEL_KEYS]) | st.text(max_size=8),
    st.integers() | st.booleans() | st.text(max_size=20)
    | st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=3)
    | st.sampled_from(["hf://a/b@" + "0" * 40, "file:///x", "hf://"]),
    max_size=6,
)  # fmt: skip


@bounded
@given(
    st.dictionaries(
        st.sampled_from(["models", "checkpoints", "recipes", "other"]),
        st.dictionaries(st.text(max_size=8), entries, max_size=3) | st.integers(),
        max_size=3,
    ),
    st.text(max_size=10),
)
def test_catalogue(tmp_path: Path, content: dict[str, Any], noise: str) -> None:
    file = tmp_path / "c.toml"
    try:
        text = tomlkit.dumps({"format": 1, **content})
    except (ValueError, UnicodeError):
        return
    for written in (text, text + noise):
        file.write_text(written, errors="surrogatepass")
        registry = Registry(Plugins())
        registry.read_catalogue(file)
        for problem in registry.problems:
            assert str(file) in problem
        for released in registry.checkpoints.values():
            assert released.folder.parent == tmp_path / "cards" / "checkpoints"


@bounded
@given(st.text(max_size=40) | st.from_regex(r"[a-z]{1,5}://[a-z./@\\]{0,20}", fullmatch=True))
def test_address(text: str) -> None:
    try:
        address = Address.parse(text)
    except HubError:
        return
    assert Address.parse(str(address)) == address
    assert ".." not in str(address.revision)


@bounded
@given(st.text(alphabet="ab./\\:~\0 ", max_size=12))
def test_paths_accepted_as_inside_stay_inside(path: str) -> None:
    if is_inside(path):
        base = Path("/base")
        assert (base / path).resolve().is_relative_to(base)
        assert (base / path).resolve() != base


@bounded
@given(values)
def test_json_round_trips(value: Any) -> None:
    text = json.dumps(value)
    try:
        read = parse_json(text)
    except ValueError:
        assert any(word in text for word in ("NaN", "Infinity"))
    else:
        assert json.dumps(read) == text
