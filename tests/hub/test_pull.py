"""Failures of a pull: each ends with one error of the right type, or with the right bytes."""

import functools
import json
import shutil
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import zoo
from tests.hub.helpers import ADDRESS, NAME, WEIGHTS, clean, fingerprint, outside, refused
from tests.hub.server import Server
from zoo.checkpoint.format import unread, unread_in
from zoo.errors import (
    AccessError,
    CheckpointError,
    HubError,
    HubWarning,
    IntegrityError,
    NotFoundError,
    NotOursError,
    UnavailableError,
)
from zoo.hub.folder import Folder
from zoo.hub.pull import pull
from zoo.registry.address import Address

Run = Callable[..., Result]


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> int:
    """The client saves downloads in chunks of this many bytes (default: ten million)."""
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1000)
    return 1000


def same(folder: Path, checkpoint: Path) -> bool:
    return fingerprint(folder) == fingerprint(checkpoint)


def test_1_a_closed_connection_continues(
    served: Server, checkpoint: Path, cache: Path, chunks: int
) -> None:
    served.fault("GET", WEIGHTS, cut=5500)
    assert same(pull(ADDRESS), checkpoint)
    ranges = [r.headers.get("range") for r in served.log if r.port == "cdn"]
    assert ranges == [None, "bytes=5000-"]
    clean(cache)


def test_2_a_reset_is_retried_then_reported(served: Server, checkpoint: Path, cache: Path) -> None:
    served.fault("GET", WEIGHTS, cut=5000, reset=True, times=2)
    assert same(pull(ADDRESS), checkpoint)
    shutil.rmtree(cache)
    served.fault("GET", WEIGHTS, cut=5000, reset=True, times=99)
    with refused(UnavailableError, "cannot be reached", ADDRESS, cache=cache):
        pull(ADDRESS)


def test_3_seven_cuts_are_too_many(served: Server, cache: Path) -> None:
    cuts = served.fault("GET", WEIGHTS, cut=10, times=7)
    with refused(UnavailableError, "cannot be reached", cache=cache):
        pull(ADDRESS)
    assert cuts.used == 6, "the client retries five times, and the zoo does not retry again"


def test_4_a_resume_answered_with_the_whole_file_is_not_corrupted(
    served: Server, checkpoint: Path, cache: Path, chunks: int
) -> None:
    served.fault("GET", WEIGHTS, cut=5500)
    served.fault("GET", WEIGHTS, whole=True, times=1, skip=1)
    assert same(pull(ADDRESS), checkpoint)
    assert [r.headers.get("range") for r in served.log if r.port == "cdn"][1] == "bytes=5000-"
    clean(cache)


def test_5_a_stalled_body_times_out_and_is_resumed(
    served: Server, checkpoint: Path, cache: Path, chunks: int
) -> None:
    served.fault("GET", WEIGHTS, cut=5500, stall=2.5)
    assert same(pull(ADDRESS), checkpoint)
    assert [r.headers.get("range") for r in served.log if r.port == "cdn"][1] == "bytes=5000-"


@pytest.mark.parametrize("path", [WEIGHTS, "/config.json"])
def test_6_a_flipped_byte_is_refused(served: Server, cache: Path, path: str) -> None:
    flip = lambda body: body[:200] + bytes([body[200] ^ 1]) + body[201:]  # noqa: E731  # one line
    served.fault("GET", path, change=flip)
    with refused(IntegrityError, "does not match its digest", cache=cache):
        zoo.load(ADDRESS)
    assert zoo.load(ADDRESS).translate("the dog a runs")


def test_6_a_file_damaged_in_the_cache_is_detected_and_fetched_again(
    served: Server, checkpoint: Path, cache: Path
) -> None:
    folder = pull(ADDRESS)
    weights = (folder / "model.safetensors").resolve()
    good = weights.read_bytes()
    weights.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with refused(IntegrityError, "does not match its digest"):
        pull(ADDRESS, offline=True)
    assert same(pull(ADDRESS), checkpoint)
    clean(cache)


def test_7_a_short_object(served: Server, cache: Path) -> None:
    oid = served.repositories[NAME].branches["main"][-1].files["model.safetensors"].sha256
    served.objects[oid] = served.objects[oid][:-100]
    with refused(IntegrityError, "does not have the expected size", cache=cache):
        pull(ADDRESS)


@pytest.mark.parametrize("status", [500, 503])
@pytest.mark.parametrize("path", ["/api/models/", "/resolve/", WEIGHTS])
def test_8_server_errors_are_retried_within_bounds(
    served: Server, checkpoint: Path, cache: Path, status: int, path: str
) -> None:
    methods = ("HEAD", "GET") if path == "/resolve/" else ("GET",)
    for method in methods:
        served.fault(method, path, status=status, times=2)
    assert same(pull(ADDRESS), checkpoint)
    shutil.rmtree(cache)
    for method in methods:
        served.fault(method, path, status=status, times=99)
    before = len(served.log)
    parts = ("server error at", f"status {status}", "Try again later")
    with refused(UnavailableError, *parts, cache=cache):
        pull(ADDRESS)
    assert len(served.log) - before < 40


def test_9_a_rate_limit_is_respected_within_bounds(
    served: Server, checkpoint: Path, cache: Path
) -> None:
    for path in ("/api/models/", WEIGHTS):
        served.fault("GET", path, status=429, headers={"Retry-After": "1"})
    began = time.monotonic()
    assert same(pull(ADDRESS), checkpoint)
    assert time.monotonic() - began > 2, "each wait lasts as long as the server requires"
    shutil.rmtree(cache)
    hour = served.fault("GET", "/api/models/", status=429, headers={"Retry-After": "3600"})
    with refused(UnavailableError, "rate limit reached at", "status 429", cache=cache):
        pull(ADDRESS)
    assert hour.used == 1, "a wait beyond the limit is an error at once"


@pytest.mark.parametrize("fault", [{"status": 503}, {"hang": 2.0}, {"cut": 0, "reset": True}])
def test_10_the_local_copy_is_used_when_the_hub_is_unavailable(
    served: Server,
    checkpoint: Path,
    fault: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ZOO_HUB_TRIES", "2")
    commit = pull(ADDRESS).name
    for method in ("HEAD", "GET"):
        served.fault(method, ".", times=99, **fault)
    requests = len(served.log)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(pull(f"{ADDRESS}@{commit}"), checkpoint)
    assert len(served.log) == requests, "a complete copy of a pinned commit needs no request"
    with pytest.warns(HubWarning, match="using the local copy of hf://ann/small from"):
        assert same(pull(ADDRESS), checkpoint)


def test_11_a_branch_that_moves_during_the_pull(
    served: Server, checkpoint: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(checkpoint, tmp_path / "other"))
    (other / "README.md").write_text("another card")
    (other / "training.json").write_text("{}")
    move = functools.partial(served.put, NAME, other)
    served.fault("HEAD", "/config.json", call=move)
    assert same(pull(ADDRESS), checkpoint)
    assert same(pull(ADDRESS), other)


@pytest.mark.parametrize(
    ("token", "kind", "message"),
    [
        (None, AccessError, "or it is private and no token was sent. Log in with `hf auth login`"),
        ("hf_wrong", AccessError, "rejected your token: it is invalid or expired"),
        ("hf_bob", NotFoundError, "it does not exist, or your token has no access to it"),
    ],
)
def test_12_private(
    served: Server,
    checkpoint: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    token: str | None,
    kind: type[HubError],
    message: str,
) -> None:
    served.repositories[NAME].private = True
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with refused(kind, message, cache=cache):
        pull(ADDRESS)
    monkeypatch.setenv("HF_TOKEN", "hf_ann")
    assert same(pull(ADDRESS), checkpoint)


@pytest.mark.parametrize("token", [None, "hf_bob"])
def test_13_gated(
    served: Server,
    checkpoint: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    token: str | None,
) -> None:
    served.repositories[NAME].gated = True
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with refused(
        AccessError, "is gated", f"Request access at {served.endpoint}/{NAME}", cache=cache
    ):
        pull(ADDRESS)
    monkeypatch.setenv("HF_TOKEN", "hf_ann")
    assert same(pull(ADDRESS), checkpoint)


def test_14_missing_repositories_revisions_and_files(
    served: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_ann")
    with refused(NotFoundError, f"{ADDRESS} has no revision 'v9'", cache=cache):
        pull(f"{ADDRESS}@v9")
    with refused(NotFoundError, f"{ADDRESS} has no revision '{'0' * 40}'", cache=cache):
        pull(f"{ADDRESS}@{'0' * 40}")
    with refused(NotFoundError, "no repository hf://ann/smal", cache=cache):
        pull("hf://ann/smal")
    served.fault("HEAD", "/config.json", status=404, headers={"X-Error-Code": "EntryNotFound"})
    with refused(NotFoundError, f"{ADDRESS} has no file 'config.json'", cache=cache):
        pull(ADDRESS)
    served.repositories[NAME].branches["main"][-1].files.pop("model.safetensors")
    with refused(NotOursError, "is not a checkpoint of the zoo: it has no model.safetensors"):
        pull(ADDRESS)


@pytest.mark.parametrize("other", ["encoder.onnx", "model.bin", "cache.h5", "tf_model.h5"])
def test_14_an_incomplete_checkpoint_is_no_model_of_another_project(
    served: Server, checkpoint: Path, tmp_path: Path, other: str
) -> None:
    folder = tmp_path / "part"
    shutil.copytree(checkpoint, folder)
    (folder / "model.safetensors").unlink()
    (folder / other).write_bytes(b"x")
    served.put(NAME, folder)
    with refused(NotOursError, "it has no model.safetensors"):
        pull(ADDRESS)
    with refused(CheckpointError, f"{folder} is not a complete checkpoint: it has no model."):
        zoo.load(folder)


def test_14_only_a_model_of_tensorflow_is_called_one(tmp_path: Path) -> None:
    assert unread(["tf_model-00001-of-00002.h5"]).startswith("its tf_model-00001-of-00002.h5 is")
    assert unread(["vocabulary.h5"]) == ""
    assert unread_in(tmp_path / "removed") == ""


def test_15_a_token_revoked_while_cached(
    served: Server, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.repositories[NAME].private = True
    monkeypatch.setenv("HF_TOKEN", "hf_ann")
    pull(ADDRESS)
    del served.tokens["hf_ann"]
    with pytest.warns(HubWarning, match="rejected your token") as recorded:
        assert same(pull(ADDRESS), checkpoint)
    assert "hf_ann" not in str(recorded[0].message)


def test_16_a_call_that_hangs_is_bounded(
    served: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_HUB_TRIES", "2")
    served.fault("GET", "/api/models/", hang=4.0, times=99)
    with refused(UnavailableError, "does not respond", "no data for 1 seconds", cache=cache):
        pull(ADDRESS)


@pytest.mark.parametrize(("method", "path"), [("GET", "/api/models/"), ("HEAD", "/resolve/")])
def test_17_a_captive_portal(served: Server, cache: Path, method: str, path: str) -> None:
    served.fault(method, path, html=True, times=99)
    with refused(UnavailableError, "is not a Hub", "requires a login", cache=cache):
        pull(ADDRESS)
    assert len(served.requests(f"{method} .*{path}")) == 1, "a retry would not help"


@pytest.mark.parametrize("name", ["ETag", "X-Linked-Etag"])
def test_18_an_etag_that_leads_out_of_the_cache(
    served: Server, cache: Path, tmp_path: Path, name: str
) -> None:
    before = outside(tmp_path, cache)
    served.fault("HEAD", "/resolve/", headers={name: '"../../../../outside"'}, times=99)
    with refused(IntegrityError, "an invalid ETag", cache=cache):
        pull(ADDRESS)
    assert outside(tmp_path, cache) == before


def test_18_an_etag_that_leads_out_of_the_cache_after_a_redirect(
    served: Server, cache: Path, tmp_path: Path
) -> None:
    before = outside(tmp_path, cache)
    commit = served.repositories[NAME].branches["main"][-1].name
    redirect = {"Location": "/api/resolve-cache/models/x"}
    served.fault("HEAD", "/resolve/", status=307, headers=redirect, times=99)
    headers = {"X-Repo-Commit": commit, "ETag": '"../../../../outside"'}
    served.fault("HEAD", "/api/resolve-cache/", status=200, headers=headers, times=99)
    with refused(IntegrityError, "an invalid ETag", cache=cache):
        pull(ADDRESS)
    assert outside(tmp_path, cache) == before


@pytest.mark.parametrize(
    "path", ["../outside", "/outside", "a/../../outside", "..\\outside", "a\0b", "a//b", ""]
)
def test_18_a_listed_path_that_leads_out_of_the_repository(
    served: Server, cache: Path, tmp_path: Path, path: str
) -> None:
    files = served.repositories[NAME].branches["main"][-1].files
    files[path] = files["config.json"]
    before = outside(tmp_path, cache)
    with refused(IntegrityError, "lists a file outside of the repository", cache=cache):
        pull(ADDRESS)
    assert outside(tmp_path, cache) == before


def test_18_a_commit_name_that_leads_out_of_the_cache(
    served: Server, cache: Path, tmp_path: Path
) -> None:
    before = outside(tmp_path, cache)
    served.fault("HEAD", "/resolve/", headers={"X-Repo-Commit": "../../outside"})
    with refused(IntegrityError, "the Hub sent another commit", cache=cache):
        pull(ADDRESS)
    good = served.repositories[NAME].branches["main"][-1]
    served.repositories[NAME].branches["main"].append(good._replace(name="../../outside"))
    with refused(IntegrityError, "the Hub sent an invalid commit", cache=cache):
        pull(ADDRESS)
    assert outside(tmp_path, cache) == before


def test_19_no_other_origin_sees_the_token(
    served: Server, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_ann")
    assert same(pull(ADDRESS), checkpoint)
    requests = {r.path for r in served.log if r.port == "cdn"}
    assert requests, "the CDN serves the large file"
    assert not [r for r in served.log if r.port == "cdn" and "authorization" in r.headers]
    assert all(r.headers.get("authorization") for r in served.log if r.port == "hub")


def test_19_links_to_another_host(
    served: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_ann")
    for link in ('rel="next"', 'rel="xet-auth"'):
        for method, path in (("GET", "/api/"), ("HEAD", "/resolve/")):
            headers = {"Link": f"<{served.cdn}/get/page2>; {link}"}
            served.fault(method, path, headers=headers, times=99)
            with refused(HubError, "the Hub's response links to another host", cache=cache):
                pull(ADDRESS)
            served.faults.clear()
    served.fault("GET", "/api/", status=302, headers={"Location": f"{served.cdn}/x"}, times=99)
    with refused(NotFoundError, "has no file for", cache=cache):
        pull(ADDRESS)
    requests = [r for r in served.log if r.port == "cdn"]
    assert requests
    assert not [r for r in requests if "authorization" in r.headers]


def test_23_offline(
    served: Server, checkpoint: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refused(HubError, "is not in the cache: requests are disabled", cache=cache):
        pull(ADDRESS, offline=True)
    folder = pull(ADDRESS)
    requests = len(served.log)
    assert pull(ADDRESS, offline=True) == folder
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert zoo.load(ADDRESS).translate("the dog a runs") == zoo.load(checkpoint).translate(
        "the dog a runs"
    )
    (folder / "model.safetensors").unlink()
    with refused(
        HubError,
        "it has no model.safetensors, and requests are disabled",
    ):
        zoo.load(ADDRESS)
    assert len(served.log) == requests


def test_a_pull_after_a_failure_keeps_the_complete_files(served: Server, checkpoint: Path) -> None:
    served.fault("GET", WEIGHTS, status=500, times=99)
    with refused(UnavailableError):
        pull(ADDRESS)
    served.faults.clear()
    first = len(served.requests("GET .*/config.json"))
    assert same(pull(ADDRESS), checkpoint)
    assert len(served.requests("GET .*/config.json")) == first == 1


def test_only_the_format_s_files_are_fetched(
    served: Server, checkpoint: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "more"))
    (folder / "pytorch_model.bin").write_bytes(b"pickled")
    (folder / "modeling.py").write_text("raise SystemExit")
    served.put("ann/more", folder)
    assert {f.name for f in pull("hf://ann/more").iterdir()} == {
        f.name for f in checkpoint.iterdir()
    }


def test_revisions(served: Server, checkpoint: Path, tmp_path: Path) -> None:
    repository = served.repositories[NAME]
    files = dict(repository.branches["main"][-1].files)
    files["README.md"] = files["README.md"]._replace(content=b"another")
    commit = repository.commit(files, branch="dev/new")
    assert pull(f"{ADDRESS}@dev/new").name == commit
    assert pull(f"{ADDRESS}@{commit}").name == commit
    assert pull(ADDRESS).name != commit
    assert pull(f"{ADDRESS}@dev/new", offline=True).name == commit
    with refused(HubError, "invalid branch"):
        pull(f"{ADDRESS}@../../x")
    for wrong in ("hf://small", "hf://ann/small/x", "hf://../small", "hf://a--b/c", "hf://.a/b"):
        with refused(HubError, "hf://owner/repo"):
            pull(wrong)


def test_16_a_head_request_that_hangs_is_retried_by_the_client(
    served: Server, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client itself retries a file that the cache lacks; the pull then succeeds."""
    served.fault("HEAD", "/resolve/", hang=1.5, times=1)
    assert same(pull(ADDRESS), checkpoint)


def test_errors_of_other_users_of_the_client_are_unchanged(served: Server) -> None:
    """During an operation, another library's requests raise the client's errors."""
    import huggingface_hub
    from huggingface_hub.errors import RemoteEntryNotFoundError

    from zoo.hub.session import operation
    from zoo.hub.settings import Settings

    with (
        operation(Settings.from_environment(), ADDRESS),
        pytest.raises(RemoteEntryNotFoundError),
    ):
        huggingface_hub.HfApi(endpoint=served.endpoint).hf_hub_download(NAME, "none.json")


def test_the_command_line(served: Server, checkpoint: Path, run: Run) -> None:
    result = run("pull", ADDRESS)
    assert result.exit_code == 0, result.output
    assert same(Path(result.stdout.strip()), checkpoint)
    assert result.stderr.startswith(f"Pulling {ADDRESS} from {ADDRESS}@")
    again = run("pull", ADDRESS, "--offline", "--json")
    assert json.loads(again.stdout)["folder"] == result.stdout.strip()
    assert again.stderr == ""
    served.fault("GET", ".", status=503, times=99)
    translated = run("translate", ADDRESS, "the dog a runs")
    assert translated.exit_code == 0, translated.output
    assert translated.stdout == run("translate", checkpoint, "the dog a runs").stdout
    assert translated.stderr.startswith("Warning: using the local copy of hf://ann/small")
    assert translated.stderr.count("\n") == 1
    wrong = run("pull", "smal")
    assert wrong.exit_code == 1
    assert "unknown checkpoint 'smal'" in wrong.stderr
    assert "unknown hub 'hff': did you mean hf?" in run("pull", "hff://a/b").stderr


def test_the_commit_that_the_command_line_reports(
    served: Server, checkpoint: Path, run: Run, tmp_path: Path
) -> None:
    plain = Path(shutil.copytree(checkpoint, tmp_path / "plain"))
    commit = served.repositories[NAME].branches["main"][-1].name
    content = Folder().listing(Address.parse(f"file://{plain}")).commit
    for name, expected in (
        (ADDRESS, commit),
        (f"{ADDRESS}@{commit}", commit),
        (f"file://{plain}", content),
        ("convs2s-tiny.dates-iso", None),
    ):
        assert json.loads(run("pull", name, "--json").stdout)["commit"] == expected
