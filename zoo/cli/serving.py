"""`zoo serve`."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo.cli.completion import complete_checkpoint
from zoo.cli.fetching import located
from zoo.cli.options import DAY, Number, engine_option, precision_option
from zoo.cli.output import loaded_registry, say
from zoo.cli.process import raise_file_limit
from zoo.errors import ConversionError, DataError
from zoo.registry.imports import require
from zoo.registry.registry import Registry

if TYPE_CHECKING:
    from zoo.serving.checkpoints import Checkpoints
    from zoo.serving.limits import Limits

KEY = "ZOO_API_KEY"
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s]+/?")
PORTS = {"http": ":80", "https": ":443"}
"""The ports that browsers leave out."""
HOST = re.compile(r"[a-z0-9_.-]+|[0-9a-f:.]*:[0-9a-f:.]*:[0-9a-f:.]*")
"""A host name, or an address of IPv6, as browsers write them."""


def _origins(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return origins as browsers write them; refuse what none would send."""
    for origin in given:
        if origin != "null" and not ORIGIN.fullmatch(origin.lower()):
            raise click.BadParameter(
                f"{origin!r} is no origin. Write the scheme, the host and perhaps a port, such as "
                "https://example.org or http://localhost:3000"
            )
    origins = (origin.lower().rstrip("/") for origin in given)
    return tuple(one.removesuffix(PORTS.get(one.partition(":")[0], "/")) for one in origins)


def _hosts(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return host names as browsers write them; refuse what none would send."""
    names = []
    for host in given:
        try:
            name = host.removeprefix("[").removesuffix("]").encode("idna").decode().lower()
        except UnicodeError:  # a part of the name is empty or too long
            name = ""
        if not HOST.fullmatch(name):
            raise click.BadParameter(
                f"{host!r} is no host name. Leave out scheme, port and path, as in example.org"
            )
        names.append(name)
    return tuple(names)


def _address(_: click.Context, __: click.Parameter, given: str) -> str:
    """Refuse an empty address, which the system would read as all addresses."""
    if not given.strip():
        raise click.BadParameter("it is empty. 0.0.0.0 or :: listens on all addresses")
    return given


def is_local(host: str) -> bool:
    """Return whether only programs of this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@click.command()
@click.argument("checkpoint", nargs=-1, metavar="[[NAME=]CHECKPOINT]...",
                shell_complete=complete_checkpoint)  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, callback=_address,
              help="The address to listen on.")  # fmt: skip
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535),
              help="The port to listen on; 0 takes a free one.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 64), default=None,
              help="Worker processes.  [default: one for each core]")  # fmt: skip
@click.option("--memory", type=Number(0, 1_000_000, min_open=True), default=2.0, show_default=True,
              metavar="GB", help="Weights that all workers together may hold.")  # fmt: skip
@click.option("--worker-memory", type=Number(0, 1_000_000, min_open=True), default=2.0,
              show_default=True, metavar="GB",
              help="Resident memory at which a worker process is replaced.")  # fmt: skip
@precision_option
@engine_option
@click.option("--api-key-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help=f"A file with the API key that clients must send; or set {KEY}.")  # fmt: skip
@click.option("--allow-host", multiple=True, metavar="NAME", callback=_hosts,
              help="Another host name that requests may be addressed to.")  # fmt: skip
@click.option("--allow-origin", multiple=True, metavar="ORIGIN", callback=_origins,
              help="Another site whose pages may send requests: https://example.org.")  # fmt: skip
@click.option("--queue", type=click.IntRange(1), default=4096, show_default=True,
              help="Texts that may wait before requests get status 429.")  # fmt: skip
@click.option("--batch-wait", type=Number(0, 10), default=0.005, show_default=True,
              metavar="SECONDS",
              help="How long a text waits for others to share its batch.")  # fmt: skip
@click.option("--connections", type=click.IntRange(1), default=1000, show_default=True,
              help="Largest number of open connections; further ones get status 503.")  # fmt: skip
@click.option("--head-seconds", type=Number(0.1, DAY), default=10.0, show_default=True,
              help="How long a client may take to send a request's head.")  # fmt: skip
@click.option("--body-seconds", type=Number(0.1, DAY), default=20.0, show_default=True,
              help="How long a client may take to send a request's body.")  # fmt: skip
@click.option("--write-seconds", type=Number(0.1, DAY), default=20.0, show_default=True,
              help="How long a client may read nothing of its answer.")  # fmt: skip
@click.option("--long-seconds", type=Number(0.1, DAY), default=15.0, show_default=True,
              help="How long a long text may keep short ones waiting.")  # fmt: skip
@click.option("--batch-texts", type=click.IntRange(1), default=256, show_default=True,
              help="Largest number of texts in a batch.")  # fmt: skip
def serve(
    checkpoint: tuple[str, ...],
    host: str,
    port: int,
    workers: int | None,
    memory: float,
    precision: str,
    engine: str | None,
    api_key_file: Path | None,
    allow_host: tuple[str, ...],
    allow_origin: tuple[str, ...],
    **limits: Any,
) -> None:
    """Serve CHECKPOINTs over HTTP: a page, an API, and LibreTranslate's API.

    Without CHECKPOINTs, serves every released checkpoint that comes with the installed packages.
    Each is loaded on first use. SIGTERM and Ctrl-C answer what was accepted, then stop.
    """
    registry = loaded_registry()
    require("starlette", "uvicorn", "prometheus_client", extra="serve", purpose="`zoo serve`")
    from zoo.serving.checkpoints import Checkpoints
    from zoo.serving.http import LOCAL_NAMES
    from zoo.serving.limits import Limits

    folders = _folders(checkpoint, registry)
    bounds = Limits(
        queue_texts=limits.pop("queue"),
        connections=_possible(limits.pop("connections")),
        memory_bytes=int(memory * 1e9),
        worker_bytes=int(limits.pop("worker_memory") * 1e9),
        **limits,
    )
    local, key = is_local(host), _key(api_key_file)
    if not local and not key:
        say(
            f"Warning: {host} may be reached from other machines, and no API key is set. Give one "
            "in a file with --api-key-file"
        )
    hosts = (*LOCAL_NAMES, host.lower(), *allow_host) if local or allow_host else ()
    access = {"api_key": key, "hosts": hosts, "origins": allow_origin}
    if engine is not None:
        folders = _runnable(folders, engine, precision, registry, named=bool(checkpoint))
    how = {"precision": precision, "engine": engine}
    _run(Checkpoints(folders, registry), bounds, (host, port), workers, how, access)


def _possible(connections: int) -> int:
    """Return how many connections can be open, and warn if it is less than is allowed."""
    files = raise_file_limit()
    possible = max(files // 2, files - 100)  # the rest is for workers, checkpoints and pages
    if possible < connections:
        say(
            f"Warning: at most {possible:,} connections will be open at once, since this process "
            f"may open {files:,} files. Allow more with `ulimit -n`"
        )
    return min(connections, possible)


def _run(
    checkpoints: Checkpoints,
    limits: Limits,
    address: tuple[str, int],
    workers: int | None,
    how: dict[str, Any],
    access: dict[str, Any],
) -> None:
    """Serve until a signal stops the server."""
    from zoo.serving.app import application
    from zoo.serving.server import check_address, server
    from zoo.serving.service import Service

    check_address(*address)
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    count = workers or cores
    threads = max(1, cores // count)
    service = Service(checkpoints, limits, workers=count, threads=threads, **how)
    host, port = address
    running = server(application(service, **access), host, port, limits, service.metrics)
    shown = f"[{host}]" if ":" in host else host
    what = "1 checkpoint" if len(checkpoints) == 1 else f"{len(checkpoints)} checkpoints"
    # A line that a script can wait for.
    running.on_listening = lambda at: say(f"Serving {what} at http://{shown}:{at}")
    running.run()


def _folders(given: tuple[str, ...], registry: Registry) -> dict[str, Path]:
    """Return the folders to serve by name; each is a checkpoint, and is pulled where necessary."""
    from zoo.checkpoint.format import describe
    from zoo.serving.checkpoints import unique_names

    pairs = [_named(one) for one in given] or [("", one) for one in _local(registry)]
    folders = {name: located(one, registry) for name, one in unique_names(pairs).items()}
    for folder in folders.values():
        describe(folder)  # a wrong name is an error now, not at the first request
    return folders


def _runnable(
    folders: dict[str, Path], engine: str, precision: str, registry: Registry, *, named: bool
) -> dict[str, Path]:
    """Return the folders that an engine can translate with.

    Raises:
        ConversionError: it cannot translate with one that is named, or with any, or lacks the
            precision.
    """
    from zoo.checkpoint.format import describe
    from zoo.interop.exporter import check_precision, exporter_of, precision_named
    from zoo.interop.reasons import Reasons

    format = registry.engines.find(engine).format
    kept, refused = {}, None
    for name, folder in folders.items():
        try:
            exporter = exporter_of(format, describe(folder)["architecture"], registry)
            reasons = Reasons(f"{name} cannot be served with {engine}")
            check_precision(exporter, precision_named(precision), reasons)
            reasons.raise_if_any()
            kept[name] = folder
        except ConversionError as error:
            refused = error
    if refused is not None and (named or not kept):
        raise refused
    return kept


def _named(given: str) -> tuple[str, str]:
    """Return the name and the checkpoint of `NAME=CHECKPOINT`; a folder may have = in its name."""
    name, equals, checkpoint = given.partition("=")
    return (name, checkpoint) if equals and name and not Path(given).exists() else ("", given)


def _local(registry: Registry) -> list[str]:
    """Return the released checkpoints that are installed, in the order of their catalogues.

    The page shows the first, and of several for the same languages, LibreTranslate's clients get
    the first.

    Raises:
        DataError: there is none.
    """
    local = [one.name for one in registry.checkpoints.values() if not one.location]
    if not local:
        raise DataError("no checkpoint to serve", "none is installed", "Name one")
    return local


def _key(file: Path | None) -> str:
    """Return the API key, empty for none.

    Raises:
        DataError: the file or the variable holds what no client can send.
    """
    variable = os.environ.get(KEY, "")
    if file is None and not variable:
        return ""
    what = f"{file or KEY} holds no API key"
    try:
        given = file.read_bytes() if file else variable.encode(errors="surrogateescape")
        key = given.decode("utf-8-sig").strip()
    except UnicodeError:
        raise DataError(what, "it is not UTF-8") from None
    if not key.isprintable() or not key:
        raise DataError(what, "it is not one line" if key else "it is empty")
    return key
