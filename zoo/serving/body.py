"""Reading the bodies of requests with care."""

from __future__ import annotations

import asyncio
import codecs
import re
from typing import TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from zoo.errors import did_you_mean
from zoo.serving.errors import EncodedError, RequestError, SlowClientError, TooLargeError
from zoo.serving.limits import Limits

Body = TypeVar("Body", bound=BaseModel)

LINGER = 8
"""A body too large is read on, and dropped, up to so many times the limit: a client that is still
sending when the connection closes would never see the answer."""

LINGER_SECONDS = 1.0
"""How long the server waits for more of a body that it drops."""

FIELDS = 2_000
"""The most fields of a form: more than the texts of a request, so that these are counted."""

LONG_FORM = 20_000
"""The bytes from which on a form is read beside the event loop."""

FAULTS = 1_000
"""The most faults of a request that are listed: of 100,000 unknown keys, the list takes seconds."""


async def read_body(request: Request, limits: Limits) -> bytes:
    """Return a request's body, without the mark with which some programs begin UTF-8.

    Raises:
        TooLargeError: it is larger than the limit, or would be.
        EncodedError: it is compressed.
        SlowClientError: it did not arrive in time.
        ClientDisconnect: the client left.
    """
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise EncodedError(encoding)
    announced = int(request.headers.get("content-length", "0"))  # h11 has checked that it is one
    waits = request.headers.get("expect", "").lower() == "100-continue"
    if announced > limits.body_bytes * (1 if waits else LINGER):  # nothing is read on
        raise _too_large(limits)
    body, received, clock = bytearray(), 0, asyncio.get_running_loop().time
    end = clock() + limits.body_seconds
    try:
        async with asyncio.timeout_at(end) as timer:
            if announced > limits.body_bytes:
                timer.reschedule(min(end, clock() + LINGER_SECONDS))
            async for part in request.stream():
                received += len(part)
                if received <= limits.body_bytes and announced <= limits.body_bytes:
                    body += part
                elif received > LINGER * limits.body_bytes:
                    break
                else:
                    timer.reschedule(min(end, clock() + LINGER_SECONDS))
    except TimeoutError:
        if max(received, announced) <= limits.body_bytes:
            raise SlowClientError(
                "the request body did not arrive in time", f"over {limits.body_seconds:g} seconds"
            ) from None
    if max(received, announced) > limits.body_bytes:
        raise _too_large(limits)
    return bytes(body.removeprefix(codecs.BOM_UTF8))


def _too_large(limits: Limits) -> TooLargeError:
    return TooLargeError(
        "the request body is too large", f"{limits.body_bytes:,} bytes are the most"
    )


def parse(kind: type[Body], body: bytes) -> Body:
    """Return a JSON body as a request.

    Raises:
        RequestError: it is not UTF-8, not JSON, or not such a request; names every fault.
    """
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(
            "the request body is not UTF-8", f"{error.reason} at byte {error.start}"
        ) from None
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise _fault(kind, error) from None


async def read_form(kind: type[Body], request: Request, limits: Limits) -> Body:
    """Return a body as a request, as `parse_form` does; a long form takes half a second.

    Raises:
        RequestError: as `read_body` and `parse_form` do.
    """
    body = await read_body(request, limits)
    if len(body) < LONG_FORM:
        return parse_form(kind, request, body)
    return await asyncio.to_thread(parse_form, kind, request, body)


def parse_form(kind: type[Body], request: Request, body: bytes) -> Body:
    """Return a body that is JSON or, as some clients send it, a form or the address's query.

    `curl -d` says that JSON is a form too. Several fields of one name are a list. Browsers end each
    line of a form with CRLF, whatever its text has.

    Raises:
        RequestError: as `parse` does.
    """
    header = request.headers.get("content-type", "")
    content = header.partition(";")[0].strip().lower()
    try:
        fields: list[tuple[str, str]] = []
        if content == "application/x-www-form-urlencoded" and not body.lstrip().startswith(b"{"):
            fields = _fields(body.decode())  # UTF-8 as it is too: that is what `curl -d` sends
        elif content == "multipart/form-data":
            fields = _parts(header, body)
        elif body or not request.url.query:
            return parse(kind, body)
        fields += _fields(request.url.query)
    except (UnicodeDecodeError, ValueError) as error:
        raise RequestError("the form cannot be read", str(error)[:200]) from None
    of_name: dict[str, list[str]] = {}
    for name, value in fields:
        of_name.setdefault(name, []).append(value.replace("\r\n", "\n"))  # as LibreTranslate does
    values = {name: each if len(each) > 1 else each[0] for name, each in of_name.items()}
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise _fault(kind, error) from None


def _fields(text: str) -> list[tuple[str, str]]:
    """Return the fields of a form that is sent as one line.

    Raises:
        ValueError: it is not UTF-8, or has too many fields.
    """
    if text.count("&") >= FIELDS:
        raise ValueError(f"it has over {FIELDS:,} fields")
    return parse_qsl(text, True, errors="strict")


def _parts(header: str, body: bytes) -> list[tuple[str, str]]:
    """Return the fields of a form that is sent in parts.

    Raises:
        ValueError: it has no boundary, too many fields, or a field without a name.
    """
    boundary = re.search(r'boundary="?([^";,\s]{1,70})', header)
    if boundary is None:
        raise ValueError("it has no boundary")
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode(), FIELDS + 2)
    if not parts or not parts[-1].startswith(b"--"):
        raise ValueError(f"its end is missing, or it has over {FIELDS:,} fields")
    fields = []
    for part in parts[:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        name = re.search(rb';\s*name=(?:"([^"]{1,100})"|([^\s";]{1,100}))', head)
        if name is None:
            raise ValueError("a field has no name")
        fields.append(((name[1] or name[2]).decode(), value.decode()))
    return fields


def _fault(kind: type[BaseModel], error: ValidationError) -> RequestError:
    advice = "See /openapi.json"
    if error.error_count() > FAULTS:
        return RequestError("the request does not fit", f"it has over {FAULTS:,} faults", advice)
    faults, syntax = [], False
    for one in error.errors(include_url=False, include_input=False, include_context=False)[:10]:
        syntax = syntax or one["type"] == "json_invalid"
        where = ".".join(str(part)[:80] for part in one["loc"])
        message = one["msg"].removeprefix("Value error, ")
        if one["type"] == "extra_forbidden":
            guess = did_you_mean(where, kind.model_fields, 1)
            message = f"no such key, {guess}" if guess else "no such key"
        faults.append(f"{where}: {message}" if where else message)
    what = "the request body is not JSON" if syntax else "the request does not fit"
    return RequestError(what, "; ".join(faults), advice)
