"""Push: the files it sends, and failures at every step. A push makes one commit, or none."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import zoo
from tests.hub.helpers import ADDRESS, NAME, as_pushed, fingerprint, refused
from tests.hub.server import Blob, Repository, Server
from zoo.checkpoint.checkpoint import convert
from zoo.errors import (
    AccessError,
    CheckpointError,
    ConflictError,
    HubError,
    UnavailableError,
)
from zoo.hub.pull import pull
from zoo.hub.push import push

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_ann")


@pytest.fixture
def edited(checkpoint: Path, tmp_path: Path) -> Path:
    """The checkpoint, with a sentence of its author at the end of its card."""
    folder = Path(shutil.copytree(checkpoint, tmp_path / "edited"))
    with (folder / "README.md").open("a") as card:
        card.write("\nMind the dog.\n")
    return folder


def commits(server: Server, branch: str = "main") -> list[str]:
    return [commit.message for commit in server.repositories[NAME].branches[branch]]


def test_one_commit_then_none_then_the_difference(
    server: Server, checkpoint: Path, edited: Path
) -> None:
    first = push(checkpoint, ADDRESS)
    assert commits(server) == ["initial commit", "Push small"]
    assert {change.kind for change in first.changes} == {"add"}
    assert fingerprint(pull(ADDRESS)) == as_pushed(checkpoint)
    again = push(checkpoint, ADDRESS)
    assert again.changes == []
    assert again.commit == first.commit
    assert len(commits(server)) == 2
    third = push(edited, ADDRESS, message="A word on the dog")
    assert [(change.kind, change.path) for change in third.changes] == [("change", "README.md")]
    assert commits(server)[-1] == "A word on the dog"
    assert len(server.requests("^PUT")) == 1, "the weights are uploaded once"
    assert pull(ADDRESS).name == third.commit


def test_files_outside_of_the_format_are_neither_sent_nor_removed(
    server: Server, checkpoint: Path, tmp_path: Path
) -> None:
    push(checkpoint, ADDRESS)
    repository = server.repositories[NAME]
    files = {**repository.branches["main"][-1].files, "notes.txt": Blob(b"mine")}
    files["tokenizer.json"] = Blob(b"{}")
    repository.commit(files)
    folder = Path(shutil.copytree(checkpoint, tmp_path / "more"))
    (folder / "private.key").write_text("never sent")
    done = push(folder, ADDRESS)
    assert [(change.kind, change.path) for change in done.changes] == [("remove", "tokenizer.json")]
    names = set(repository.branches["main"][-1].files)
    assert names == {".gitattributes", "notes.txt", *(f.name for f in checkpoint.iterdir())}


def test_a_dry_run_sends_nothing(server: Server, checkpoint: Path, run: Run) -> None:
    result = run("push", checkpoint, ADDRESS, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "add     model.safetensors" in result.stdout
    assert not server.requests("^(POST|PUT)")
    assert server.repositories == {}


def test_private_branch_message_and_type(server: Server, checkpoint: Path, run: Run) -> None:
    done = run("push", checkpoint, ADDRESS, "--private", "--revision", "dev", "-m", "Half",
               "--dtype", "float16")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert server.repositories[NAME].private
    assert commits(server) == ["initial commit"]
    assert commits(server, "dev")[-1] == "Half"
    half = pull(f"{ADDRESS}@dev")
    sizes = [(f / "model.safetensors").stat().st_size for f in (half, checkpoint)]
    assert 0.4 < sizes[0] / sizes[1] < 0.6
    assert zoo.load(half).translate("the dog a runs")
    assert "is up to date" in run("push", half, f"{ADDRESS}@dev").stdout


def test_private_is_an_error_for_a_public_repository(server: Server, checkpoint: Path) -> None:
    push(checkpoint, ADDRESS)
    with refused(HubError, "is public", "--private applies to a new repository only"):
        push(checkpoint, ADDRESS, private=True)


def test_a_new_branch_of_a_public_repository_is_not_private(
    server: Server, checkpoint: Path
) -> None:
    push(checkpoint, ADDRESS)
    with refused(HubError, "is public", "--private applies to a new repository only"):
        push(checkpoint, f"{ADDRESS}@secret", private=True)
    assert list(server.repositories[NAME].branches) == ["main"]


def test_a_new_branch_of_another_format_is_refused(server: Server, checkpoint: Path) -> None:
    repository = server.repositories[NAME] = Repository()
    names = ("config.json", "tokenizer.json", "pytorch_model.bin")
    repository.commit({name: Blob(b"{}") for name in names})
    with refused(HubError, "holds a folder of transformers", "Push to another repository"):
        push(checkpoint, f"{ADDRESS}@zoo")
    assert "zoo" not in repository.branches


def test_a_dry_run_compares_with_what_a_new_branch_begins_with(
    server: Server, checkpoint: Path, edited: Path
) -> None:
    push(checkpoint, ADDRESS)
    dry = push(edited, f"{ADDRESS}@new", dry_run=True)
    assert [(change.kind, change.path) for change in dry.changes] == [("change", "README.md")]
    assert list(server.repositories[NAME].branches) == ["main"]


@pytest.mark.parametrize("name", ["curve.png", "README.md", "training.json"])
def test_a_link_out_of_the_folder_is_not_published(
    server: Server, edited: Path, tmp_path: Path, name: str
) -> None:
    secret = tmp_path / "id"
    secret.write_bytes((edited / name).read_bytes())
    (edited / name).unlink()
    (edited / name).symlink_to(secret)
    with refused(CheckpointError, f"{name} cannot be read: it is a link to a file elsewhere"):
        push(edited, ADDRESS)
    assert NAME not in server.repositories
    with refused(CheckpointError, "it is a link to a file elsewhere"):
        convert(edited, tmp_path / "half", "float16")


@pytest.mark.parametrize("size", [0, 100, 5_000])
def test_damaged_weights_are_not_pushed(server: Server, edited: Path, size: int) -> None:
    weights = edited / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])
    with refused(CheckpointError, "model.safetensors"):
        push(edited, ADDRESS)
    assert NAME not in server.repositories


@pytest.mark.filterwarnings("ignore:.* was written with:zoo.errors.PluginWarning")
def test_the_name_of_a_package_is_no_place_for_a_script(server: Server, edited: Path) -> None:
    config = json.loads((edited / "config.json").read_text())
    config["plugin"]["package"] = "evil\n```\n<script>x</script>\n"
    (edited / "config.json").write_text(json.dumps(config))
    push(edited, ADDRESS)
    card = (pull(ADDRESS) / "README.md").read_text()
    assert "pip install seq2seq-zoo\n" in card
    assert "script" not in card


def test_20_a_failing_upload_is_retried_and_nothing_is_committed(
    server: Server, checkpoint: Path
) -> None:
    server.fault("PUT", "/put/", status=500, times=99)
    with refused(UnavailableError, "server error at", "status 500"):
        push(checkpoint, ADDRESS)
    assert len(server.requests("^PUT")) > 1
    assert commits(server) == ["initial commit"]
    server.faults.clear()
    server.fault("PUT", "/put/", status=503, times=2)
    push(checkpoint, ADDRESS)
    assert fingerprint(pull(ADDRESS)) == as_pushed(checkpoint)


@pytest.mark.parametrize("fault", [{"lose": True}, {"lose": True, "times": 2}, {"hang": 2.0}])
def test_21_a_commit_whose_response_is_lost_is_recognized(
    server: Server, checkpoint: Path, fault: dict[str, object]
) -> None:
    server.fault("POST", "/commit/", **fault)
    done = push(checkpoint, ADDRESS)
    assert commits(server) == ["initial commit", "Push small"], "once, not twice"
    assert done.commit == server.repositories[NAME].branches["main"][-1].name


def test_21_a_creation_whose_response_is_lost(server: Server, checkpoint: Path) -> None:
    server.fault("POST", "/repos/create", lose=True)
    push(checkpoint, ADDRESS)
    assert commits(server) == ["initial commit", "Push small"]


def test_22_a_stale_parent(server: Server, checkpoint: Path, edited: Path) -> None:
    push(checkpoint, ADDRESS)
    repository = server.repositories[NAME]

    def concurrent_push() -> None:
        files = {**repository.branches["main"][-1].files, "config.json": Blob(b"{}")}
        repository.commit(files, "concurrent")

    server.fault("POST", "/commit/", call=concurrent_push)
    with refused(ConflictError, "has changed", "Push again to see what would change now"):
        push(edited, ADDRESS)
    assert commits(server)[-1] == "concurrent"
    done = push(edited, ADDRESS)
    assert {change.path for change in done.changes} == {"README.md", "config.json"}


def test_8_a_server_error_at_every_call_of_a_push(
    server: Server, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_HUB_TRIES", "8")
    monkeypatch.setenv("ZOO_HUB_WAIT", "0.01")
    calls = ("/api/models/", "/repos/create", "/validate-yaml", "/preupload/", "/batch",
             "/verify/", "/commit/")  # fmt: skip
    for path in calls:
        for method in ("GET", "POST"):
            server.fault(method, path, status=503, times=1)
    push(checkpoint, ADDRESS)
    assert commits(server) == ["initial commit", "Push small"]


def test_9_a_commit_does_not_wait_longer_than_the_limit(server: Server, checkpoint: Path) -> None:
    hour = server.fault("POST", "/commit/", status=429, headers={"Retry-After": "3600"}, times=9)
    with refused(UnavailableError, "rate limit reached at"):
        push(checkpoint, ADDRESS)
    assert hour.used == 1
    assert commits(server) == ["initial commit"]


@pytest.mark.parametrize("path", ["/api/models/", "/repos/create", "/preupload/", "/commit/"])
def test_8_and_16_a_push_is_bounded(
    server: Server, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    for method in ("GET", "POST"):
        server.fault(method, path, status=500, times=99)
    with refused(UnavailableError, "server error at"):
        push(checkpoint, ADDRESS)
    assert len(server.log) < 40


def test_8_a_hub_that_fails_from_the_commit_on(server: Server, checkpoint: Path) -> None:
    def fail() -> None:
        server.fault("GET", "/api/models/", status=500, times=99)

    commit = server.fault("POST", "/commit/", status=500, times=99, call=fail)
    with refused(UnavailableError, "server error at"):
        push(checkpoint, ADDRESS)
    assert commit.used == 1, "the retries of the listing are not repeated for each commit"


def test_12_no_permission_to_write(
    server: Server, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_bob")
    with refused(AccessError, "forbidden", "your token lacks the permission"):
        push(checkpoint, ADDRESS)
    server.repositories[NAME] = Repository()
    server.repositories[NAME].commit({})
    with refused(AccessError, "forbidden"):
        push(checkpoint, ADDRESS)
    monkeypatch.delenv("HF_TOKEN")
    with refused(AccessError, "Log in with `hf auth login`"):
        push(checkpoint, "hf://ann/new")
    assert len(server.repositories[NAME].branches["main"]) == 1


def test_a_response_that_contains_the_token_is_not_quoted(server: Server, checkpoint: Path) -> None:
    headers = {"X-Error-Message": "token hf_ann is bad (Bearer hf_ann)"}
    server.fault("POST", "/repos/create", status=403, headers=headers, times=99)
    with refused(AccessError, "forbidden"):
        push(checkpoint, ADDRESS)


def test_an_invalid_card_is_not_sent(server: Server, edited: Path, run: Run) -> None:
    card = edited / "README.md"
    text = card.read_text()
    for wrong, message in (
        (text.replace("library_name: seq2seq-zoo", "library_name: other"), "library_name"),
        (text.replace("tags:", "tags: ["), "is invalid"),
        (text.replace("tags:", "language: no\ntags:"), "'language' must be one or more strings"),
        ("no metadata", "library_name"),
    ):
        card.write_text(wrong)
        with refused(CheckpointError, message):
            push(edited, ADDRESS)
    card.unlink()
    with refused(CheckpointError, "has no card", "--write"):
        push(edited, ADDRESS)
    assert server.log == []
    assert run("card", edited, "--write").exit_code == 0
    push(edited, ADDRESS)


def test_a_folder_that_is_not_a_checkpoint_is_not_sent(server: Server, tmp_path: Path) -> None:
    with refused(CheckpointError, "has no config.json, no model.safetensors"):
        push(tmp_path, ADDRESS)
    with refused(HubError, "a commit never changes"):
        push(tmp_path, f"{ADDRESS}@{'0' * 40}")
    assert server.log == []


def test_a_released_checkpoint_is_pushed_by_its_name(server: Server, run: Run) -> None:
    name = "convs2s-tiny.dates-iso"
    done = run("push", name, ADDRESS)
    assert done.exit_code == 0, done.output
    assert commits(server)[-1] == f"Push {name}"
    assert fingerprint(pull(ADDRESS)) == as_pushed(pull(name))
    assert zoo.push(name, ADDRESS).changes == []
    assert zoo.push(ADDRESS, "hf://ann/copy").changes
    wrong = run("push", "convs2s-tiny.dates-is", ADDRESS)
    assert f"did you mean {name}" in wrong.stderr
