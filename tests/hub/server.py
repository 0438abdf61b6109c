"""A Hub for tests on loopback, with enough of the real HTTP API for the real client.

A second port serves large files, as the Hub's CDN does. Every request is recorded in `log`, and
tests inject failures with `fault`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import yaml


class Blob(NamedTuple):
    """The content of a file; large files are stored as LFS objects."""

    content: bytes
    large: bool = False

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def git(self) -> str:
        stored = b"version lfs " + self.sha256.encode() if self.large else self.content
        return hashlib.sha1(b"blob %d\0" % len(stored) + stored).hexdigest()


class Commit(NamedTuple):
    name: str
    files: dict[str, Blob]
    message: str = ""


@dataclass
class Repository:
    private: bool = False
    gated: bool = False
    owner: str = "ann"
    branches: dict[str, list[Commit]] = field(default_factory=dict)

    def commit(self, files: dict[str, Blob], message: str = "", branch: str = "main") -> str:
        history = self.branches.setdefault(branch, [])
        text = json.dumps([message, len(history), branch, {p: b.sha256 for p, b in files.items()}])
        name = hashlib.sha1(text.encode()).hexdigest()
        history.append(Commit(name, files, message))
        return name

    def find(self, revision: str) -> Commit | None:
        if revision in self.branches:
            return self.branches[revision][-1]
        commits = [commit for branch in self.branches.values() for commit in branch]
        return next((commit for commit in commits if commit.name == revision), None)


@dataclass
class Fault:
    """A failure of the next `times` matching requests, after the first `skip`.

    - `status`: respond at once with this status.
    - `headers`: replace these headers of the response.
    - `cut`: close the connection after this many bytes of the body; with `reset`, by a TCP reset;
      with `stall`, after this many seconds.
    - `hang`: close the connection after this many seconds, without a response.
    - `lose`: handle the request and close the connection without a response.
    - `html`: send a web page.
    - `whole`: ignore the header `Range`.
    - `change`: change the body, but not the header `Content-Length`.
    - `call`: call this function first.
    """

    method: str
    path: str
    times: int = 1
    skip: int = 0
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    reset: bool = False
    stall: float = 0.0
    hang: float = 0.0
    lose: bool = False
    html: bool = False
    whole: bool = False
    change: Callable[[bytes], bytes] | None = None
    call: Callable[[], object] | None = None
    used: int = 0


class Request(NamedTuple):
    port: str
    method: str
    path: str
    headers: dict[str, str]


class Server:
    """The Hub and its CDN, running until `close`."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.tokens = {"hf_ann": "ann", "hf_bob": "bob"}
        self.objects: dict[str, bytes] = {}
        self.xet: dict[str, str] = {}
        self.known: dict[str, bytes] = {}
        self.xet_folder: Path | None = None
        self.log: list[Request] = []
        self.faults: list[Fault] = []
        self.lock = threading.RLock()
        self._servers = {port: _serve(self, port) for port in ("hub", "cdn")}
        self.endpoint, self.cdn = (
            f"http://127.0.0.1:{server.server_address[1]}" for server in self._servers.values()
        )

    def close(self) -> None:
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def fault(self, method: str, path: str, **details: Any) -> Fault:
        fault = Fault(method, path, **details)
        self.faults.append(fault)
        return fault

    def put(self, name: str, folder: Path, *, large: str = ".safetensors", **settings: Any) -> str:
        """Commit a folder's files to a repository; return the commit."""
        repository = self.repositories.setdefault(name, Repository(**settings))
        files = {}
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                blob = Blob(file.read_bytes(), file.name.endswith(large))
                self.objects[blob.sha256] = blob.content
                files[file.relative_to(folder).as_posix()] = blob
        return repository.commit(files)

    def serve_by_xet(self, folder: Path, cas: Path) -> None:
        """Serve these files by Xet; a folder is the store."""
        import hf_xet  # type: ignore[import-untyped]  # it has no types

        self.xet_folder = cas
        for file in folder.iterdir():
            (info,) = hf_xet.hash_files([str(file)])
            content = file.read_bytes()
            sha256 = hashlib.sha256(content).hexdigest()
            self.xet[sha256], self.known[sha256] = info.hash, content

    def requests(self, pattern: str = "", port: str = "") -> list[str]:
        """Return the matching requests so far, as `METHOD path`."""
        lines = [f"{r.method} {r.path}" for r in self.log if port in ("", r.port)]
        return [line for line in lines if re.search(pattern, line)]


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Print nothing: many tests make the client disconnect."""


def _serve(server: Server, port: str) -> ThreadingHTTPServer:
    handler = type("Bound", (Handler,), {"server_of": server, "port": port})
    http = QuietServer(("127.0.0.1", 0), handler)
    threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True).start()
    return http


class ConnectionClosed(Exception):  # noqa: N818  # it ends an exchange, and is not an error
    """The connection is closed."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: Server
    port: str
    fault: Fault | None = None

    def log_message(self, *_: object) -> None:
        """Print nothing: requests are in the server's log."""

    def do_GET(self) -> None:
        self.exchange()

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    # --- one exchange -----------------------------------------------------------------------------

    def exchange(self) -> None:
        with contextlib.suppress(ConnectionClosed, BrokenPipeError, ConnectionResetError):
            length = int(self.headers.get("content-length") or 0)
            if self.headers.get("transfer-encoding") == "chunked":
                self.body = b"".join(self.chunks())
            else:
                self.body = self.rfile.read(length)
            parts = urlsplit(self.path)
            self.route, self.query = unquote(parts.path), parse_qs(parts.query)
            server = self.server_of
            with server.lock:
                headers = {name.lower(): value for name, value in self.headers.items()}
                server.log.append(Request(self.port, self.command, self.route, headers))
                self.fault = self.matching_fault()
            if self.fault is not None and self.apply(self.fault):
                return
            with server.lock:
                respond = self.handle_request()
            if self.fault is not None and self.fault.lose:
                self.end()
            respond()

    def chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def matching_fault(self) -> Fault | None:
        for fault in self.server_of.faults:
            if fault.method == self.command and re.search(fault.path, self.route):
                fault.used += 1
                if fault.skip < fault.used <= fault.skip + fault.times:
                    return fault
        return None

    def apply(self, fault: Fault) -> bool:
        """Apply a fault before the request is handled; return whether the exchange is over."""
        if fault.call is not None:
            fault.call()
        if fault.hang:
            time.sleep(fault.hang)
            self.end()
        if fault.status is not None:
            self.send(fault.status, b'{"error":"injected"}', fault.headers)
            return True
        if fault.html:
            self.send(200, b"<html>Welcome to our airport</html>", {"Content-Type": "text/html"})
            return True
        return False

    def end(self, *, reset: bool = False) -> None:
        """Close the connection at once."""
        self.wfile.flush()
        if reset:
            immediately = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, immediately)
            self.connection.close()
        else:
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True
        raise ConnectionClosed

    def send(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        """Send a response, changed by the fault if there is one."""
        fault = self.fault or Fault("", "")
        all_headers = {"Content-Type": "application/json", **(headers or {}), **fault.headers}
        all_headers.setdefault("Content-Length", str(len(body)))
        self.send_response(status)
        for name, value in all_headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault.change is not None:
            body = fault.change(body)
        if fault.cut is not None:
            self.wfile.write(body[: fault.cut])
            self.wfile.flush()
            time.sleep(fault.stall)
            self.end(reset=fault.reset)
        self.wfile.write(body)
        if len(body) < int(all_headers["Content-Length"]):
            self.end()

    def json(self, value: object, status: int = 200, **headers: str) -> Callable[[], None]:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return lambda: self.send(status, json.dumps(value).encode(), named)

    def refuse(self, status: int, code: str = "", message: str = "") -> Callable[[], None]:
        return self.json({"error": message}, status, X_Error_Code=code, X_Error_Message=message)

    # --- routes -----------------------------------------------------------------------------------

    def handle_request(self) -> Callable[[], None]:
        if self.port == "cdn":
            return self.cdn()
        sent = self.headers.get("authorization", "").removeprefix("Bearer ")
        self.user = self.server_of.tokens.get(sent)
        if sent and self.user is None:
            return self.refuse(401, message="Invalid credentials in Authorization header")
        routes: list[tuple[str, str, Callable[..., Callable[[], None]]]] = [
            ("GET", r"/api/whoami-v2", self.whoami),
            ("POST", r"/api/repos/create", self.create),
            ("POST", r"/api/validate-yaml", self.validate),
            ("POST", r"/api/models/([^/]+/[^/]+)/preupload/(.+)", self.preupload),
            ("POST", r"/api/models/([^/]+/[^/]+)/commit/(.+)", self.commit),
            ("POST", r"/api/models/([^/]+/[^/]+)/branch/(.+)", self.branch),
            ("GET", r"/api/models/([^/]+/[^/]+)/xet-(?:read|write)-token/(.+)", self.xet_token),
            ("GET", r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", self.info),
            ("POST", r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", self.batch),
            ("POST", r"/verify/(.+)", lambda _: self.json({})),
            ("HEAD", r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.resolve),
            ("GET", r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.resolve),
        ]
        for method, pattern, action in routes:
            match = re.fullmatch(pattern, self.route)
            if match and method == self.command:
                groups = match.groups()
                if pattern.startswith((r"/api/models/", r"/([^/]+")):
                    repository = self.server_of.repositories.get(groups[0])
                    inaccessible = (
                        repository and repository.private and self.user != repository.owner
                    )
                    if repository is None or inaccessible:
                        return self.refuse(
                            404 if self.user else 401, "RepoNotFound", "Repository not found"
                        )
                    return action(repository, *groups)
                return action(*groups)
        return self.refuse(404, message=f"no route {self.command} {self.route}")

    def whoami(self) -> Callable[[], None]:
        return self.json({"name": self.user, "type": "user", "orgs": [], "auth": {}})

    def create(self) -> Callable[[], None]:
        requested = json.loads(self.body)
        name = f"{requested['organization'] or self.user}/{requested['name']}"
        if self.user is None:
            return self.refuse(401, message="Invalid username or password.")
        if name.split("/")[0] != self.user:
            return self.refuse(403, message=f"You don't have the rights to create under {name}")
        url = f"{self.server_of.endpoint}/{name}"
        if name in self.server_of.repositories:
            existing = {"error": "You already created it", "url": url}
            return self.json(existing, 409)
        private = requested.get("visibility") == "private"
        repository = Repository(private=private, owner=str(self.user))
        repository.commit({".gitattributes": Blob(b"*.safetensors filter=lfs\n")}, "initial commit")
        self.server_of.repositories[name] = repository
        return self.json({"url": url})

    def validate(self) -> Callable[[], None]:
        card = json.loads(self.body)["content"].split("---")
        try:
            valid = isinstance(yaml.safe_load(card[1]), dict)
        except (IndexError, yaml.YAMLError):
            valid = False
        errors = [] if valid else [{"message": "the metadata is not a mapping"}]
        return self.json({"errors": errors, "warnings": []}, 200 if valid else 400)

    def preupload(self, repository: Repository, _: str, revision: str) -> Callable[[], None]:
        current = repository.find(revision)
        files = []
        for file in json.loads(self.body)["files"]:
            blob = current.files.get(file["path"]) if current else None
            large = file["path"].endswith(".safetensors")
            oid = (blob.sha256 if blob.large else blob.git) if blob else None
            mode = "lfs" if large else "regular"
            files.append(
                {"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid}
            )
        return self.json({"files": files})

    def batch(self, _: Repository, name: str) -> Callable[[], None]:
        objects: list[dict[str, Any]] = []
        for requested in json.loads(self.body)["objects"]:
            oid = requested["oid"]
            entry = {"oid": oid, "size": requested["size"]}
            if oid not in self.server_of.objects:
                entry["actions"] = {
                    "upload": {"href": f"{self.server_of.cdn}/put/{oid}"},
                    "verify": {"href": f"{self.server_of.endpoint}/verify/{oid}"},
                }
            objects.append(entry)
        return self.json({"transfer": "basic", "objects": objects})

    def commit(self, repository: Repository, name: str, branch: str) -> Callable[[], None]:
        if self.user != repository.owner:
            return self.refuse(403, message="you may not write here")
        current = repository.find(branch)
        if current is None:
            return self.refuse(404, "RevisionNotFound")
        files = dict(current.files)
        message = ""
        for line in self.body.decode().splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "header":
                message = value["summary"]
                if value.get("parentCommit") not in (None, current.name):
                    return self.refuse(412, message="the branch has a newer commit")
            elif item["key"] == "file":
                files[value["path"]] = Blob(base64.b64decode(value["content"]))
            elif item["key"] == "lfsFile":
                if value["oid"] not in self.server_of.objects | self.server_of.known:
                    return self.refuse(400, message="the object was never uploaded")
                content = (self.server_of.known | self.server_of.objects)[value["oid"]]
                files[value["path"]] = Blob(content, large=True)
            elif item["key"] == "deletedFile":
                files.pop(value["path"], None)
        oid = repository.commit(files, message, branch)
        return self.json({"commitUrl": f"{self.server_of.endpoint}/{name}", "commitOid": oid})

    def branch(self, repository: Repository, _: str, branch: str) -> Callable[[], None]:
        if branch in repository.branches:
            return self.refuse(409, message="Reference already exists")
        repository.branches[branch] = [repository.branches["main"][-1]]
        return self.json({})

    def info(self, repository: Repository, name: str, revision: str | None) -> Callable[[], None]:
        commit = repository.find(revision or "main")
        if commit is None:
            return self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        siblings = []
        for path, blob in commit.files.items():
            file: dict[str, Any] = {"rfilename": path}
            if "blobs" in self.query:
                file |= {"size": len(blob.content), "blobId": blob.git}
                if blob.large:
                    size = len(blob.content)
                    file["lfs"] = {"sha256": blob.sha256, "size": size, "pointerSize": 134}
            siblings.append(file)
        gated = "manual" if repository.gated else False
        private = repository.private
        description = {"id": name, "sha": commit.name, "private": private, "gated": gated}
        return self.json({**description, "siblings": siblings})

    def resolve(
        self, repository: Repository, name: str, revision: str, path: str
    ) -> Callable[[], None]:
        commit = repository.find(revision)
        if commit is None:
            return self.refuse(404, "RevisionNotFound")
        if repository.gated and self.user != repository.owner:
            return self.refuse(403 if self.user else 401, "GatedRepo", "Access is restricted")
        blob = commit.files.get(path)
        if blob is None:
            return self.refuse(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": commit.name, "Content-Type": "application/octet-stream"}
        if not blob.large:
            return lambda: self.send_file(blob.content, {**headers, "ETag": f'"{blob.git}"'})
        server = self.server_of
        headers |= {
            "X-Linked-Etag": f'"{blob.sha256}"',
            "X-Linked-Size": str(len(blob.content)),
            "Location": f"{server.cdn}/get/{blob.sha256}",
            "ETag": f'"{blob.git}"',
        }
        if blob.sha256 in server.xet:
            token = f"{server.endpoint}/api/models/{name}/xet-read-token/{commit.name}"
            headers |= {"X-Xet-Hash": server.xet[blob.sha256], "Link": f'<{token}>; rel="xet-auth"'}
        return lambda: self.send(302, b"", headers)

    def xet_token(self, _: Repository, name: str, revision: str) -> Callable[[], None]:
        expires, cas = int(time.time()) + 3600, f"local://{self.server_of.xet_folder}"
        headers = {
            "X_Xet_Cas_Url": cas,
            "X_Xet_Access_Token": "xet",
            "X_Xet_Token_Expiration": str(expires),
        }
        return self.json({"accessToken": "xet", "exp": expires, "casUrl": cas}, 200, **headers)

    def cdn(self) -> Callable[[], None]:
        oid = self.route.rpartition("/")[2]
        if self.command == "PUT":
            if hashlib.sha256(self.body).hexdigest() != oid:
                return lambda: self.send(400)
            self.server_of.objects[oid] = self.body
            return lambda: self.send(200, b"", {"ETag": f'"{oid}"'})
        content = self.server_of.objects.get(oid)
        if content is None:
            return lambda: self.send(404)
        headers = {"ETag": f'"{oid}"', "Content-Type": "application/octet-stream"}
        return lambda: self.send_file(content, headers)

    def send_file(self, content: bytes, headers: dict[str, str]) -> None:
        """Send a file, or the requested range of it."""
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if match is None or (self.fault is not None and self.fault.whole):
            self.send(200, content, headers)
            return
        start = int(match[1])
        if start >= len(content):
            self.send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        part = content[start : int(match[2]) + 1 if match[2] else len(content)]
        content_range = f"bytes {start}-{start + len(part) - 1}/{len(content)}"
        self.send(206, part, {**headers, "Content-Range": content_range})
