"""Send a checkpoint to a hub: look first, show what would change, commit once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.checkpoint.card import check_card
from zoo.checkpoint.format import FILES, describe
from zoo.errors import HubError, NotFoundError
from zoo.hub.contract import Change, Commit, Hub, Listing, digest
from zoo.hub.hubs import hub_of
from zoo.registry.address import Address
from zoo.registry.registry import Registry, default_registry


@dataclass(frozen=True)
class Pushed:
    """What a push did, or would do: where to, the changes, and the commit that has them.

    `commit` is None where nothing is there yet, in a dry run.
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
    """Send a checkpoint folder to an address, by one commit, or by none if nothing differs.

    `private` holds for a repository that is made new. `dry_run` only tells what would change.

    Raises:
        CheckpointError: the folder is not a whole checkpoint, or its card is not well-formed.
        ConflictError: somebody else has pushed meanwhile.
        HubError: it cannot be sent.
    """
    address = Address.parse(address) if isinstance(address, str) else address
    hub = hub_of(address, registry or default_registry())
    if address.commit:
        raise HubError(f"{address} cannot be pushed to", "a commit never changes")
    describe(folder)
    check_card(folder)
    before = _listing(hub, address)
    if before is not None and private and before.private is False:
        raise HubError(
            f"{address} is public",
            "--private holds for a repository that is made new",
            "Make it private on its page first, or push to another",
        )
    if before is None and not dry_run:
        hub.create(address, private=private)
        before = _listing(hub, address)
    changes = changes_of(folder, before)
    page = hub.page(address)
    parent = before.commit if before else None
    if dry_run or not changes:
        return Pushed(address, changes, parent, page)
    made = Commit(folder, changes, parent, message or f"Push {folder.resolve().name}")
    return Pushed(address, changes, hub.commit(address, made), page)


def _listing(hub: Hub, address: Address) -> Listing | None:
    try:
        return hub.listing(address)
    except NotFoundError:
        return None


def changes_of(folder: Path, before: Listing | None) -> list[Change]:
    """Return what differs between a folder and a commit; files not of the format are left alone."""
    changes = []
    there = before.files if before else {}
    for path in FILES:
        file, promise = folder / path, there.get(path)
        if not file.is_file():
            if promise is not None:
                changes.append(Change(path, "remove", promise.size))
            continue
        size = file.stat().st_size
        if promise is None:
            changes.append(Change(path, "add", size))
        elif size != promise.size or digest(file, git=not promise.sha256) != (
            promise.sha256 or promise.git
        ):
            changes.append(Change(path, "change", size))
    return changes
