"""An operation restores what it changes in the client, and checks its requests to its end."""

import contextlib
import logging
import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants, get_session
from huggingface_hub.utils import _http

import zoo
from tests.hub.helpers import ADDRESS, NAME, fingerprint
from tests.hub.server import Server
from zoo.errors import AccessError, HubError, HubWarning, UnavailableError
from zoo.hub.pull import pull
from zoo.hub.push import push
from zoo.hub.session import operation
from zoo.hub.settings import Settings


@pytest.fixture
def served(server: Server, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("HF_TOKEN", "hf_ann")
    server.put(NAME, checkpoint)
    return server


def process_state() -> dict[str, Any]:
    """Return everything that an operation could change in the client or in the process."""
    return {
        "factory": _http._GLOBAL_CLIENT_FACTORY,
        "session": get_session(),
        "hooks": {event: list(hooks) for event, hooks in get_session().event_hooks.items()},
        "constants": {name: value for name, value in vars(constants).items() if name.isupper()},
        "level": logging.getLogger("huggingface_hub").level,
        "handlers": list(logging.getLogger("huggingface_hub").handlers),
        "environment": dict(os.environ),
        "filters": list(warnings.filters),
        "showwarning": warnings.showwarning,
    }


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    before = process_state()
    yield
    after = process_state()
    for name, value in before.items():
        assert after[name] == value, name
    assert after["session"] is before["session"]


def test_a_pull_and_a_push_restore_everything(
    served: Server, checkpoint: Path, cache: Path
) -> None:
    with unchanged():
        assert fingerprint(pull(ADDRESS)) == fingerprint(checkpoint)
    with unchanged():
        push(checkpoint, "hf://ann/new")
    with unchanged():
        zoo.load(ADDRESS)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT"])
def test_everything_is_restored_after_an_error(
    served: Server, checkpoint: Path, method: str
) -> None:
    served.fault(method, ".", status=403, times=99)
    if method in ("GET", "HEAD"):
        with unchanged(), pytest.raises(HubError):
            pull(ADDRESS)
    else:
        served.objects.clear()
        with unchanged(), pytest.raises(HubError):
            push(checkpoint, "hf://ann/new")


def test_hooks_and_a_factory_of_the_user_stay(served: Server) -> None:
    seen: list[Any] = []
    factory = _http._GLOBAL_CLIENT_FACTORY

    def with_hook() -> Any:
        session = factory()
        session.event_hooks = {"request": [*session.event_hooks["request"], seen.append]}
        return session

    huggingface_hub.set_client_factory(with_hook)
    try:
        with unchanged():
            pull(ADDRESS)
        assert seen, "the user's own session is used"
    finally:
        huggingface_hub.set_client_factory(factory)


def test_the_user_agent_has_two_versions_only(served: Server, checkpoint: Path) -> None:
    pull(ADDRESS)
    push(checkpoint, "hf://ann/new")
    agents = {r.headers["user-agent"] for r in served.log if r.port == "hub"}
    expected = f"seq2seq-zoo/{zoo.__version__}; hf_hub/{huggingface_hub.__version__}"
    assert agents == {expected}


def test_a_refused_connection_does_not_replace_the_checked_session(
    served: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client would otherwise retry in a new session, without the operation's hooks."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("ZOO_HUB_TRIES", "2")
    with unchanged(), pytest.raises(UnavailableError, match="cannot be reached"):
        pull(ADDRESS)
    settings = Settings.from_environment()
    commit = "0" * 40
    with unchanged(), pytest.raises(UnavailableError), operation(settings, ADDRESS, commit) as api:
        api.hf_hub_download(NAME, "config.json", revision=commit)


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("HTTPS_PROXY", "ftp://ann:secret@proxy", "Unknown scheme for proxy"),
        ("HTTPS_PROXY", "http://ann:secret@proxy:x", "Invalid port"),
        ("SSL_CERT_FILE", "/nowhere/ca.pem", "No such file"),
    ],
)
def test_wrong_settings_of_the_network_are_named(
    served: Server, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, reason: str
) -> None:
    """Of a checkpoint that is here, the last pull is used."""
    folder = pull(ADDRESS)
    monkeypatch.setenv(variable, value)
    huggingface_hub.close_session()
    try:
        with pytest.raises(UnavailableError, match=f"no request can be made.*{reason}") as raised:
            pull("hf://ann/other")
        assert "Check HTTPS_PROXY" in str(raised.value)
        assert "secret" not in str(raised.value)
        with pytest.warns(HubWarning, match="using the local copy"):
            assert pull(ADDRESS) == folder
    finally:
        monkeypatch.undo()
        huggingface_hub.close_session()


def test_a_token_that_is_no_text_of_headers_is_named(
    served: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_änn")
    with pytest.raises(AccessError, match="your token has characters that are not ASCII") as raised:
        pull(ADDRESS)
    assert "änn" not in str(raised.value)


def test_an_operation_whose_session_is_replaced_is_repeated(served: Server) -> None:
    settings = Settings.from_environment()

    def replace() -> None:
        thread = threading.Thread(target=huggingface_hub.close_session)
        thread.start()
        thread.join()

    calls = []

    def attempt(disturbed: int = 1) -> str | None:
        with operation(settings, ADDRESS) as api:
            commit = api.model_info(NAME).sha
            calls.append(commit)
            if len(calls) <= disturbed:
                replace()
            return commit

    assert settings.retry.run(attempt) == calls[0]
    assert len(calls) == 2
    with pytest.raises(UnavailableError, match="another thread has replaced"):
        attempt(disturbed=99)


def test_operations_of_several_threads_do_not_mix(served: Server, checkpoint: Path) -> None:
    served.put("ann/other", checkpoint)
    folders: list[Path] = []
    names = [ADDRESS, "hf://ann/other"] * 2
    with unchanged():
        threads = [threading.Thread(target=lambda n=n: folders.append(pull(n))) for n in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(folders) == 4
    assert len(set(folders)) == 2
    for folder in folders:
        assert fingerprint(folder) == fingerprint(checkpoint)
