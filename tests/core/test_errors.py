"""Errors that leave the process in which they were raised."""

import copy
import pickle

import pytest

from zoo.errors import CheckpointError, UnavailableError, UnknownNameError, ZooError

ERRORS = [
    ZooError("no file", "it is gone", "Use `--new-vocabulary both`"),
    UnknownNameError("model", "transfomer", ["transformer"], "See `zoo list models`"),
    CheckpointError("it is damaged"),
    UnavailableError("busy", "status 429", "Try again later", wait=3.0),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_in_another_process(error: ZooError) -> None:
    """Pools of processes send it back pickled; one that cannot be made again blocks them."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301  # our own
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_an_exception_without_a_message_leaves_no_colon() -> None:
    why = f"it raised {type(AssertionError()).__name__}: {AssertionError()}"
    error = ZooError("the plugin is broken", why, "Report this to its author")
    expected = "the plugin is broken: it raised AssertionError. Report this to its author"
    assert str(error) == expected
