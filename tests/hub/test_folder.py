"""A folder as a hub, with the same pinning and checks; hubs that plugins bring."""

import contextlib
import errno
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

import zoo
from tests.hub.helpers import as_pushed, fingerprint, refused
from zoo import hookimpl
from zoo.errors import ConflictError, HubError, IntegrityError, NotFoundError, PluginError
from zoo.files import held
from zoo.hub import folder
from zoo.hub.contract import Commit
from zoo.hub.folder import Folder
from zoo.hub.pull import pull
from zoo.hub.push import push, send
from zoo.registry.address import Address
from zoo.registry.declarations import Scheme
from zoo.registry.discovery import installed
from zoo.registry.owners import Plugin
from zoo.registry.registry import Registry, default_registry


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"file://{tmp_path}/hub"


def content(folder: Path) -> dict[str, str]:
    return {k: v for k, v in fingerprint(folder).items() if k != "manifest"}


def test_push_and_pull_round_trip(checkpoint: Path, address: str, tmp_path: Path) -> None:
    first = push(checkpoint, address)
    assert content(pull(address)) == as_pushed(checkpoint, address)
    assert push(checkpoint, address).changes == []
    other = Path(shutil.copytree(checkpoint, tmp_path / "other"))
    (other / "training.json").write_text("{}")
    second = push(other, address)
    assert second.commit != first.commit
    assert content(pull(f"{address}@{first.commit}")) == as_pushed(checkpoint, address)
    assert content(pull(address, offline=True)) == as_pushed(other, address)
    assert not list(tmp_path.rglob("*.part"))
    push(checkpoint, f"{address}@old")
    assert content(pull(f"{address}@old")) == as_pushed(checkpoint, f"{address}@old")
    push(pull(f"{address}@old"), address)
    assert pull(address).name == first.commit, "equal files are an equal commit"


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        (".git/HEAD", ".git"),
        ("src/main.py", "src"),
        ("refs", "refs"),  # a file
        ("refs/main.pdf\nnotes.txt", "notes.txt"),
        (f"{'a' * 40}", "a" * 40),  # of a store of files by their digests
        (f"{'a' * 40}/weights.bin", "a" * 40),
        (f".{'a' * 40}.x.part/manifest", f".{'a' * 40}.x.part"),
    ],
)
def test_a_folder_that_is_no_hub_is_refused_and_stays_as_it_was(
    checkpoint: Path, tmp_path: Path, entry: str, named: str
) -> None:
    root = tmp_path / "project"
    for name in entry.split("\n"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("theirs")
    before = fingerprint(tmp_path)
    for dry_run in (True, False):
        with refused(
            HubError, f"cannot push to {root}: it is no hub, and holds {named}", "empty folder"
        ):
            push(checkpoint, f"file://{root}", dry_run=dry_run)
    assert fingerprint(tmp_path) == before


def test_an_empty_folder_and_files_of_file_managers_are_no_obstacle(
    checkpoint: Path, address: str, tmp_path: Path
) -> None:
    root = tmp_path / "hub"
    root.mkdir()
    push(checkpoint, address, dry_run=True)
    assert not list(root.iterdir())
    for name in (".DS_Store", "._refs", "Thumbs.db", "Desktop.ini", ".nfs00000001", ".Trash-1000"):
        (root / name).write_text("theirs")
    (root / "lost+found").mkdir()
    push(checkpoint, address)
    push(checkpoint, f"{address}@other")
    assert content(pull(address)) == as_pushed(checkpoint, address)


@pytest.mark.parametrize("name", ["ann@work/captions", "captions@2", "a@b/c@d"])
def test_the_name_of_a_folder_may_have_an_at_sign(
    name: str, checkpoint: Path, tmp_path: Path
) -> None:
    plain = Path(shutil.copytree(checkpoint, tmp_path / "plain" / name))
    assert pull(f"file://{plain}") == plain
    hub = tmp_path / "hub" / name
    hub.mkdir(parents=True)
    pushed = push(checkpoint, f"file://{hub}")
    assert (pushed.address.path, pushed.address.revision) == (str(hub), None)
    push(checkpoint, f"file://{hub}@old")
    for address in (f"file://{hub}", f"file://{hub}@old", f"file://{hub}@{pushed.commit}"):
        assert pull(address).is_relative_to(hub)
    assert Address.parse(f"file://{hub}@new/one") == Address("file", str(hub), "new/one")


@pytest.mark.parametrize("text", ["file://", "hf://a/b@", "hf://a/b@../c", "file:///a@b c"])
def test_what_is_no_address(text: str) -> None:
    with refused(HubError, f"{text!r} is not an address"):
        Address.parse(text)


def test_a_commit_s_files_are_checked(checkpoint: Path, address: str) -> None:
    push(checkpoint, address)
    weights = pull(address) / "model.safetensors"
    good = weights.read_bytes()
    weights.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with refused(IntegrityError, "does not match its digest"):
        zoo.load(address)
    weights.write_bytes(good)
    manifest = weights.with_name("manifest")
    manifest.write_text(manifest.read_text().replace("README.md", "../README.md"))
    with refused(IntegrityError, "has changed"):
        zoo.load(address)


@pytest.mark.parametrize("offline", [False, True])
def test_a_missing_file_of_a_commit_is_named(checkpoint: Path, address: str, offline: bool) -> None:
    pushed = push(checkpoint, address)
    (pull(address) / "README.md").unlink()
    for given in (address, f"{address}@{pushed.commit}"):
        with refused(IntegrityError, "it has no README.md" if offline else "it is missing"):
            pull(given, offline=offline)


def test_a_push_mends_a_damaged_commit(checkpoint: Path, address: str) -> None:
    first = push(checkpoint, address)
    folder = pull(address)
    weights, card = folder / "model.safetensors", folder / "README.md"
    good = weights.read_bytes()
    weights.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    card.unlink()
    again = push(checkpoint, address)
    assert {(change.kind, change.path) for change in again.changes} == {
        ("change", "model.safetensors"), ("change", "README.md"),
    }  # fmt: skip
    assert again.commit == first.commit
    assert content(pull(address)) == as_pushed(checkpoint, address)
    assert push(checkpoint, address).changes == []


def test_a_push_of_an_earlier_commit_mends_it(
    checkpoint: Path, address: str, tmp_path: Path
) -> None:
    push(checkpoint, address)
    weights = pull(address) / "model.safetensors"
    other = Path(shutil.copytree(checkpoint, tmp_path / "other"))
    (other / "training.json").write_text("{}")
    push(other, address)
    weights.write_bytes(b"damaged")
    push(checkpoint, address)
    assert content(pull(address)) == as_pushed(checkpoint, address)


def test_files_of_another_format_are_left_alone(
    checkpoint: Path, address: str, tmp_path: Path
) -> None:
    files = ["notes.txt", "sub/more.txt", "README.md"]
    theirs = tmp_path / "theirs"
    (theirs / "sub").mkdir(parents=True)
    for name in files:
        (theirs / name).write_text(name)
    send(theirs, address, default_registry(), files, False, None, False)
    done = push(checkpoint, address)
    assert {change.kind for change in done.changes} == {"add", "change"}
    kept = content(pull(address))
    assert kept.keys() == {*fingerprint(checkpoint), "notes.txt", "sub/more.txt"}
    assert kept["notes.txt"] == fingerprint(theirs)["notes.txt"]
    (theirs / "sub" / "more.txt").unlink()
    again = send(theirs, address, default_registry(), files[:2], False, None, False)
    assert [(change.kind, change.path) for change in again.changes] == [("remove", "sub/more.txt")]
    (pull(address) / "notes.txt").write_text("damaged")
    (theirs / "README.md").write_text("new")
    with refused(IntegrityError, "notes.txt of", "does not match its digest"):
        send(theirs, address, default_registry(), ["README.md"], False, None, False)


def test_a_plain_checkpoint_folder_is_an_address(checkpoint: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "plain"))
    commit = Folder().listing(Address.parse(f"file://{folder}")).commit
    assert pull(f"file://{folder}@{commit}") == folder
    with refused(HubError, "cannot push to", "it is a checkpoint itself"):
        push(checkpoint, f"file://{folder}@new")
    (folder / "training.json").write_text("{}")
    assert pull(f"file://{folder}") == folder
    with refused(IntegrityError, "has changed"):
        pull(f"file://{folder}@{commit}")


def test_missing_folders_and_revisions(checkpoint: Path, address: str) -> None:
    with refused(NotFoundError, "the folder does not exist"):
        pull(address)
    push(checkpoint, address)
    with refused(NotFoundError, "has no revision 'v9'"):
        pull(f"{address}@v9")
    for wrong in ("file://relative/x", "file:///a/../b"):
        with refused(HubError, "file:// needs an absolute path"):
            pull(wrong)
    with refused(HubError, "cannot be made private"):
        push(checkpoint, f"{address}2", private=True)


def test_the_second_of_two_pushes_is_rejected(
    checkpoint: Path, address: str, tmp_path: Path
) -> None:
    push(checkpoint, address)
    stale = Commit(checkpoint, [], "0" * 40, "late")
    other = Path(shutil.copytree(checkpoint, tmp_path / "other"))
    (other / "training.json").write_text("{}")
    with refused(ConflictError, "has changed"):
        Folder().commit(Address.parse(address), Commit(other, [], stale.parent, "late"))


def test_a_file_that_changes_while_a_push_waits_is_not_committed(
    checkpoint: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit had other files than its manifest lists, and could not be pulled."""
    own = Path(shutil.copytree(checkpoint, tmp_path / "own"))
    wait = folder._exclusive

    @contextlib.contextmanager
    def waiting(root: Path) -> Iterator[None]:
        (own / "training.json").write_text('{"curve": []}')
        with wait(root):
            yield

    monkeypatch.setattr(folder, "_exclusive", waiting)
    with pytest.raises(ConflictError, match=r"training\.json has changed during .* Push again"):
        push(own, address)
    monkeypatch.undo()
    push(own, address)
    assert content(pull(address)) == as_pushed(own, address)


def test_a_branch_is_not_the_folder_of_another(checkpoint: Path, address: str) -> None:
    for name in ("main", "new/one"):
        push(checkpoint, f"{address}@{name}")
    for name in ("main/one", "new"):
        with refused(HubError, f"cannot push to {address}@{name}: names of branches are", "Choose"):
            push(checkpoint, f"{address}@{name}")


def test_what_killed_pushes_left_is_removed(checkpoint: Path, address: str, tmp_path: Path) -> None:
    """Of a commit that is never pushed again, too; what another process writes stays."""
    root = tmp_path / "hub"
    dead, alive = (root / f".{n * 40}.12.part" for n in "ab")
    kept = root / ".nfs0001"
    for left in (dead, alive, kept):
        left.mkdir(parents=True)
    replaced = root / f".{'d' * 40}.3.old"
    replaced.mkdir()
    with held(alive):
        push(checkpoint, address)
    assert not dead.exists()
    assert alive.is_dir()
    assert kept.is_dir()
    assert not replaced.exists()
    assert (root / ("d" * 40)).is_dir(), "it was moved away, and nothing came into its place"


def test_the_lock_of_a_killed_push_does_not_stay(
    checkpoint: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "hub" / ".pushing"
    lock.parent.mkdir()
    lock.touch()  # of a process that was killed
    push(checkpoint, address)
    monkeypatch.setattr("zoo.hub.folder.WAIT", 0)
    other = Path(shutil.copytree(checkpoint, tmp_path / "other"))
    (other / "training.json").write_text("{}")
    with FileLock(lock), refused(ConflictError, "another push to", "Try again later"):
        push(other, address)
    push(other, address)


def test_a_full_disk_is_named_and_leaves_nothing(
    checkpoint: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folder, "_copy", full)
        with refused(HubError, f"{tmp_path}/hub cannot be written", "No space left"):
            push(checkpoint, address)
    assert not [f for f in (tmp_path / "hub").rglob("*") if f.is_file() and f.name != ".pushing"]
    push(checkpoint, address)
    assert content(pull(address)) == as_pushed(checkpoint, address)


def test_an_existing_folder_cannot_be_made_private(checkpoint: Path, address: str) -> None:
    push(checkpoint, address)
    with refused(HubError, "cannot be made private"):
        push(checkpoint, address, private=True)


class Attic(Folder):
    """A hub that a plugin brings."""


def registry_with_hub(hub: str) -> Registry:
    @hookimpl
    def zoo_hubs() -> Iterable[Scheme]:
        yield Scheme("attic", "files in the attic", hub)

    plugins = installed()
    module = SimpleNamespace(zoo_hubs=zoo_hubs, ZOO_API=2)
    plugins.add(module, Plugin("attic", "zoo-attic", "1.0"))
    try:
        return Registry(plugins)
    finally:
        plugins.manager.unregister(name="attic")
        plugins.loaded.pop("attic")


def test_a_dry_run_refuses_what_a_push_refuses(
    checkpoint: Path, address: str, tmp_path: Path
) -> None:
    """Before a byte is written, and with the words of the push."""
    plain = Path(shutil.copytree(checkpoint, tmp_path / "plain"))
    (tmp_path / "file").write_text("of another kind")
    push(checkpoint, f"{address}@used")
    before = fingerprint(tmp_path)
    cases = (
        (f"file://{plain}", False, "it is a checkpoint itself"),
        (f"file://{tmp_path}/file/hub", False, "file is a file"),
        (f"{address}@used/more", False, "names of branches are paths"),
        (f"{address}2", True, "cannot be made private"),
    )
    for given, private, reason in cases:
        for dry_run in (True, False):
            with refused(HubError, reason):
                push(checkpoint, given, private=private, dry_run=dry_run)
    assert fingerprint(tmp_path) == before


def test_a_plugin_brings_a_hub(checkpoint: Path, tmp_path: Path) -> None:
    registry = registry_with_hub("tests.hub.test_folder:Attic")
    box = f"attic://{tmp_path}/box"
    push(checkpoint, box, registry)
    assert content(pull(box, registry)) == as_pushed(checkpoint, box)
    broken = registry_with_hub("nowhere:Attic")
    with refused(PluginError, "hub attic:// is broken: nowhere:Attic gave ModuleNotFoundError"):
        pull("attic:///x", broken)
    assert "attic" not in Registry(installed()).hubs


@pytest.mark.parametrize("size", ["", "-1", "x", "1e3", "9" * 40, "\u0661"])
def test_a_manifest_with_a_size_that_is_no_number(tmp_path: Path, size: str) -> None:
    text = f"{'0' * 64} {size} config.json\n"
    commit = folder.commit_name(text)
    (tmp_path / commit).mkdir()
    (tmp_path / commit / "manifest").write_text(text, encoding="utf-8")
    with refused(IntegrityError, "is not the manifest of commit"):
        Folder().listing(Address.parse(f"file://{tmp_path}@{commit}"))
