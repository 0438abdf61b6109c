"""Answers of a Hub that are wrong, absurd or meant to hurt: one clear error, and no other host."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result

from tests.hub.helpers import ADDRESS, NAME, WEIGHTS, refused
from tests.hub.server import Server
from zoo.errors import HubError, IntegrityError, NotFoundError, UnavailableError
from zoo.hub.cache import find_commits, remove, verify
from zoo.hub.pull import pull
from zoo.hub.push import push
from zoo.hub.retry import RetryPolicy
from zoo.hub.settings import Settings

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def token(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_ann")


def test_a_push_over_a_connection_that_always_drops_ends_soon(
    server: Server, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    server.fault("PUT", "/put/", lose=True, times=99)
    with refused(UnavailableError, "cannot be reached"):
        push(checkpoint, ADDRESS)
    assert len(server.requests("^PUT")) == Settings.from_environment().retry.tries


def test_a_push_over_a_connection_that_drops_at_times_succeeds(
    server: Server, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    server.fault("PUT", "/put/", lose=True, times=3)
    assert push(checkpoint, ADDRESS).commit


def test_a_push_ends_after_the_longest_wait(
    server: Server, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    monkeypatch.setenv("ZOO_HUB_TRIES", "1000")
    monkeypatch.setenv("ZOO_HUB_LONGEST_WAIT", "3")
    monkeypatch.setenv("ZOO_HUB_WAIT", "4")  # so that the operation is not begun again
    # Each look at the clock is a second after the last.
    clock = SimpleNamespace(monotonic=itertools.count().__next__)
    monkeypatch.setattr("zoo.hub.session.time", clock)
    server.fault("PUT", "/put/", lose=True, times=10_000)
    with refused(UnavailableError, "cannot be reached"):
        push(checkpoint, ADDRESS)
    assert len(server.requests("^PUT")) == 5


@pytest.mark.parametrize(
    ("kind", "link"),
    [
        ("verify", "http://127.0.0.1:9/verify"),
        ("verify", "file:///etc/passwd"),
        ("upload", "file:///etc/passwd"),
        ("upload", "ftp://127.0.0.1/x"),
        ("verify", "no link"),
    ],
)
def test_links_of_an_upload(server: Server, checkpoint: Path, kind: str, link: str) -> None:
    def change(body: bytes) -> bytes:
        answer = json.loads(body)
        for entry in answer["objects"]:
            entry["actions"][kind]["href"] = link
        # The length of the body is sent already.
        return json.dumps(answer).encode().ljust(len(body))[: len(body)]

    server.fault("POST", "/objects/batch", change=change, times=9)
    with refused(HubError, "links to another host"):
        push(checkpoint, ADDRESS)
    assert not server.requests("^PUT")


@pytest.mark.parametrize(
    "endpoint",
    ["", " ", "nonsense", "ftp://a", "http://", "http://a:99999", "http://a b", "http://a\nb",
     "https://user:word@a", "https://a?b", "http://[::1", "file:///tmp", "http://" + "a" * 1000],
)  # fmt: skip
def test_an_endpoint_that_is_no_url(
    server: Server, monkeypatch: pytest.MonkeyPatch, run: Run, endpoint: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    if not endpoint:
        assert Settings.from_environment().endpoint == "https://huggingface.co"
        return
    done = run("pull", ADDRESS)
    assert done.exit_code == 1
    (line,) = done.output.splitlines()
    assert "HF_ENDPOINT is " in line
    assert "it must be a URL such as" in line


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIMEOUT", "TRIES", "WAIT", "LONGEST_WAIT"):
        monkeypatch.setenv(f"ZOO_HUB_{name}", "")
    settings = Settings.from_environment()
    assert (settings.timeout, settings.retry) == (Settings.timeout, RetryPolicy())


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        ("https://ann:SECRET@hub.example", "'https://hub.example'"),
        ("https://:SECRET@hub.example", "'https://hub.example'"),
        ("https://hub.example/?token=SECRET", "'https://hub.example'"),
        ("https://hub.example:443/a#SECRET", "'https://hub.example'"),
        ("https://ann:SECRET/SECRET@hub.example", "no URL of a server"),
        ("https://hub.example?a@SECRET", "no URL of a server"),
        ("ann:SECRET@hub.example", "no URL of a server"),
    ],
)
def test_a_password_in_the_endpoint_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, shown: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(HubError, match="must not contain a user name, a query") as caught:
        Settings.from_environment()
    assert f"HF_ENDPOINT is {shown}: it must" in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_a_body_that_is_not_the_gzip_it_claims(served: Server) -> None:
    served.fault("GET", "/api/models/", headers={"Content-Encoding": "gzip"}, times=99)
    with refused(HubError, "the Hub sent an invalid response"):
        pull(ADDRESS)


@pytest.mark.parametrize("size", ["9" * 30, "-1", "many", "1e9"])
def test_an_absurd_size(served: Server, size: str, cache: Path) -> None:
    served.fault("HEAD", "safetensors", headers={"X-Linked-Size": size}, times=99)
    with refused(IntegrityError, "the Hub sent another size", cache=cache):
        pull(ADDRESS)


@pytest.mark.parametrize("etag", ['"' + "0" * 64 + '"', '"' + "0" * 40 + '"', '"short"'])
def test_a_blob_is_never_kept_under_another_digest(served: Server, etag: str, cache: Path) -> None:
    served.fault("HEAD", "safetensors", headers={"X-Linked-Etag": etag}, times=99)
    with refused(IntegrityError, "the Hub sent another digest", cache=cache):
        pull(ADDRESS)
    served.faults.clear()
    pull(ADDRESS)
    for _, faults in verify(find_commits(ADDRESS)):
        assert faults == []


def test_a_head_that_drops_once_is_repeated(served: Server) -> None:
    served.fault("HEAD", "safetensors", lose=True)
    assert (pull(ADDRESS) / "model.safetensors").is_file()


def test_a_file_that_is_missing_is_named(served: Server) -> None:
    served.fault("HEAD", "config.json", status=404, times=99)
    with refused(NotFoundError, "has no file 'config.json'"):
        pull(ADDRESS)
    served.faults.clear()
    served.fault("GET", WEIGHTS, status=404, times=99)
    with refused(NotFoundError, "has no file for"):
        pull(ADDRESS)


def test_a_commit_that_is_removed_while_it_is_pulled(served: Server) -> None:
    """A pull ends with one clear error, or with all files; a removal always succeeds."""
    pull(ADDRESS)
    served.repositories.clear()
    served.put(NAME, Path(find_commits(ADDRESS)[0].folder))

    def removed() -> None:
        remove(find_commits(ADDRESS))

    served.fault("GET", "/api/models/", call=removed)
    assert (pull(ADDRESS) / "model.safetensors").is_file()
    commits = find_commits(ADDRESS)
    remove(commits)
    remove(commits)
