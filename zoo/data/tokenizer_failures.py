"""Failures of the library `tokenizers`, which raises bare Exceptions and panics, as errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from zoo.errors import DataError


@contextlib.contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic of the library, which is no subclass of Exception, into a RuntimeError.

    Raises:
        DataError: the system gives the library no threads.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        if "ThreadPoolBuildError" in str(error):
            raise DataError(
                "the tokenizer cannot start its threads",
                "this process may start no more",
                "Allow more (`ulimit -u`), or set TOKENIZERS_PARALLELISM=false",
            ) from None
        raise RuntimeError(f"the library has failed: {error}") from None


@contextlib.contextmanager
def failing(what: str) -> Iterator[None]:
    """Turn every failure of the library into a DataError that says what cannot be done."""
    try:
        with panics_as_errors():
            yield
    except DataError:
        raise
    except Exception as error:  # the library raises bare Exceptions
        raise DataError(what, str(error)[:300]) from None
