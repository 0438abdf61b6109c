"""The retry policy, and the check of a file against its digest."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hub.helpers import refused
from zoo.errors import ConflictError, IntegrityError, UnavailableError
from zoo.hub.digest import FileDigest
from zoo.hub.retry import RetryPolicy


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits of the retry loop in seconds, which are recorded and skipped."""
    recorded: list[float] = []
    monkeypatch.setattr("time.sleep", recorded.append)
    return recorded


def failing(*errors: Exception) -> Callable[[], str]:
    remaining = list(errors)

    def call() -> str:
        if remaining:
            raise remaining.pop(0)
        return "done"

    return call


def down(wait: float = 0.0) -> UnavailableError:
    return UnavailableError("the server is down", wait=wait)


def test_waits_double_and_follow_the_server(waits: list[float]) -> None:
    assert RetryPolicy().run(failing(down(), down(), down(wait=9), down())) == "done"
    assert waits == [1, 2, 9, 8]


def test_tries_and_waits_are_bounded(waits: list[float]) -> None:
    policy = RetryPolicy(tries=3, wait=1, longest_wait=10)
    with pytest.raises(UnavailableError):
        policy.run(failing(down(), down(), down()))
    assert waits == [1, 2]
    waits.clear()
    with pytest.raises(UnavailableError):
        policy.run(failing(down(wait=6), down(wait=6)))
    assert waits == [6], "all waits together are bounded"


def test_other_errors_are_not_retried(waits: list[float]) -> None:
    for error in (ConflictError("changed"), ValueError("a mistake")):
        with pytest.raises(type(error)):
            RetryPolicy().run(failing(error))
    assert waits == []


def test_a_file_and_its_digest(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"dogs")
    git = hashlib.sha1(b"blob 4\0dogs").hexdigest()
    digest = FileDigest.of(file)
    assert digest == FileDigest(4, hashlib.sha256(b"dogs").hexdigest())
    assert digest.matches(file)
    assert FileDigest(4, git=git).matches(file)
    file.write_bytes(b"cats")
    with refused(IntegrityError, "the file does not match its digest", "its SHA-256 is"):
        digest.verify(file, "the file")
    with refused(IntegrityError, "its git object id is"):
        FileDigest(4, git=git).verify(file, "the file")
    file.write_bytes(b"elephants")
    with refused(IntegrityError, "it has 9 bytes, not 4"):
        digest.verify(file, "the file")


def test_digests_agree_where_both_have_the_same_kind() -> None:
    sha256, git = FileDigest(4, "a" * 64), FileDigest(4, git="b" * 40)
    assert sha256.agrees_with(sha256)
    assert sha256.agrees_with(git), "nothing contradicts"
    assert not sha256.agrees_with(FileDigest(5, "a" * 64))
    assert not sha256.agrees_with(FileDigest(4, "c" * 64))
    assert not git.agrees_with(FileDigest(4, git="c" * 40))
