"""Push a checkpoint to a hub: compare first, report the changes, commit once."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.checkpoint.card import CARD_LIMIT, LIBRARY
from zoo.checkpoint.card_text import published
from zoo.checkpoint.format import CARD, FILES, SHARED, SOURCE, TARGET, WEIGHTS, check_own, describe
from zoo.errors import CheckpointError, HubError, NotFoundError
from zoo.files import TEXT_LIMIT, read_json, read_text
from zoo.hub.contract import Change, Commit, Hub, Listing
from zoo.hub.hubs import hub_of
from zoo.hub.metadata import check_card
from zoo.registry.address import Address
from zoo.registry.registry import Registry, default_registry

FORMATS = {
    "training.json": "a checkpoint of the zoo",
    "model.safetensors": "another project's weights or a checkpoint of the zoo",
    "generation_config.json": "a folder of transformers",
    "pytorch_model.bin": "a folder of transformers",
    "model.bin": "a folder of CTranslate2",
    "encoder.onnx": "ONNX graphs",
}
"""Files that show what format a repository has."""

PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
"""The name of a distribution."""

COMMON = frozenset({"config.json", "tokenizer.json"})
"""Names of files that several formats have."""


@dataclass(frozen=True)
class Pushed:
    """The result of a push or a dry run: the address, the changes, and the commit with them.

    `commit` is None in a dry run if the repository does not exist yet.
    """

    address: Address
    changes: Sequence[Change]
    commit: str | None
    page: str


def push(
    folder: Path,
    address: Address | str,
    registry: Registry | None = None,
    *,
    private: bool = False,
    message: str | None = None,
    dry_run: bool = False,
) -> Pushed:
    """Push a checkpoint folder to an address, by one commit, or by none if nothing differs.

    The pushed card names the packages to install and the address to load from; the folder does not
    change. `private` applies to a repository that is created. `dry_run` only returns what would
    change.

    Raises:
        CheckpointError: the folder is not a complete checkpoint, or its card is invalid.
        ConflictError: the repository has a commit by someone else since it was read.
        HubError: the push failed.
    """
    address = branch(address)
    description = describe(folder)
    check_card(folder)
    registry = registry or default_registry()
    check_whole(folder, description, registry)
    message = message or f"Push {folder.resolve().name}"
    with _published(folder, address, _packages(folder, description)) as ready:
        return send(ready, address, registry, FILES, private, message, dry_run)


def check_whole(folder: Path, description: Mapping[str, Any], registry: Registry) -> None:
    """Make sure that weights and tokenizers can be read, before others pull them.

    Of an architecture that is not installed, by its `config.json`, the header of the weights is
    read.

    Raises:
        CheckpointError: they are damaged, or a weight is not finite.
    """
    from zoo.checkpoint.checkpoint import read
    from zoo.checkpoint.tensors import is_finite, open_tensors

    if description["architecture"] not in registry.architectures:
        with open_tensors(folder / WEIGHTS):
            return
    weights = read(folder, registry).model.named_parameters()
    if diverged := [name for name, weight in weights if not is_finite(weight)]:
        raise CheckpointError(
            f"{folder} cannot be pushed", f"{diverged[0]} has values that are not finite"
        )


def _packages(folder: Path, description: Mapping[str, Any]) -> str:
    """Return the packages that a checkpoint needs, those of its tokenizers too, for pip."""
    files = [folder / name for name in (SHARED, SOURCE, TARGET)]
    tokenizers = [read_json(file, TEXT_LIMIT) for file in files if file.is_file()]
    sources = [table for each in tokenizers if isinstance(table := each.get("sources"), dict)]
    members = [member for table in sources for member in table.values()]
    needs = [description["plugin"], *tokenizers, *(m for m in members if isinstance(m, dict))]
    names = dict.fromkeys(str(each.get("package", "")) for each in needs)
    return " ".join(filter(PACKAGE.fullmatch, names)) or LIBRARY


@contextlib.contextmanager
def _published(folder: Path, address: Address, packages: str) -> Iterator[Path]:
    """Yield a folder of links to a checkpoint's files, whose card names packages and address."""
    with tempfile.TemporaryDirectory() as temporary:
        ready = Path(temporary)
        for path in FILES:
            file = folder / path
            if file.is_file():
                check_own(folder, path)
                (ready / path).parent.mkdir(exist_ok=True)
                (ready / path).symlink_to(file.resolve())
        card = read_text(ready / CARD, CARD_LIMIT)
        (ready / CARD).unlink()
        text = published(card, str(address), packages)
        (ready / CARD).write_bytes(text.encode())
        yield ready


def send(
    folder: Path,
    address: Address | str,
    registry: Registry,
    files: Sequence[str],
    private: bool,
    message: str | None,
    dry_run: bool,
) -> Pushed:
    """Push the files of a folder that have the names `files`; others of these names are removed.

    Raises:
        ConflictError: as `push` does.
        HubError: so too, or the repository holds another format.
    """
    address = branch(address)
    hub = hub_of(address, registry)
    hub.check_push(address, private=private)
    before = _listing(hub, address)
    base = hub.base(address) if before is None and address.revision else None
    _check(address, before or base, files, private)
    if before is None and dry_run:
        before = base
    elif before is None:
        hub.create(address, private=private)
        before = _listing(hub, address)
        _check(address, before, files, private)
    damaged = hub.damaged(address, before) if before is not None else []
    changes = changes_of(folder, before, files, damaged)
    page = hub.page(address)
    parent = before.commit if before else None
    if dry_run or not changes:
        return Pushed(address, changes, parent, page)
    commit = Commit(folder, changes, parent, message or f"Push {folder.resolve().name}", files)
    return Pushed(address, changes, hub.commit(address, commit), page)


def _check(address: Address, before: Listing | None, files: Sequence[str], private: bool) -> None:
    """Make sure that a repository, if there is one, has the wanted visibility and format.

    Raises:
        HubError: it has not.
    """
    if before is None:
        return
    if private and before.private is None:
        raise HubError(
            f"{address} cannot be made private",
            "its hub has no private repositories",
            "Leave out --private; a folder's permissions apply",
        )
    if private and before.private is False:
        raise HubError(
            f"{address} is public",
            "--private applies to a new repository only",
            "Make it private on its page first, or push to another one",
        )
    common = COMMON.intersection(files, before.files)
    for name, content in FORMATS.items():
        if common and name in before.files and name not in files:
            raise HubError(
                f"{address} holds {content} ({name})",
                f"its {' and its '.join(sorted(common))} would be replaced, and the rest left",
                "Push to another repository",
            )


def branch(address: Address | str) -> Address:
    """Return an address to which one can push.

    Raises:
        HubError: it names a commit, or is no address.
    """
    address = Address.parse(address) if isinstance(address, str) else address
    if address.commit:
        raise HubError(f"cannot push to {address}", "a commit never changes", "Name a branch")
    return address


def _listing(hub: Hub, address: Address) -> Listing | None:
    try:
        return hub.listing(address)
    except NotFoundError:
        return None


def changes_of(
    folder: Path,
    before: Listing | None,
    files: Sequence[str] = FILES,
    damaged: Collection[str] = (),
) -> list[Change]:
    """Return the differences between a folder and a commit, for files of the format only.

    `damaged` are files of the commit that no longer are what it lists.
    """
    changes = []
    pushed = before.files if before else {}
    for path in files:
        file, digest = folder / path, pushed.get(path)
        if not file.is_file():
            if digest is not None:
                changes.append(Change(path, "remove", digest.size))
        elif digest is None:
            changes.append(Change(path, "add", file.stat().st_size))
        elif path in damaged or not digest.matches(file):
            changes.append(Change(path, "change", file.stat().st_size))
    return changes
