"""A hub of models and data sets on this machine, with the requests that `huggingface_hub` makes of the real one.

    with hub_of({"somebody/tiny": folder}, datasets={"somebody/flowers": other}) as hub:
        hub.point(monkeypatch, tmp_path / "cache")              # for this process
        subprocess.run(..., env=hub.environment(tmp_path))      # or for another one

A repository is a folder, or a folder for each revision: `{"main": folder, "v1": other}`. Its commit is a hash of its
files, as on the hub: a file that is changed, added or deleted makes another commit. The hub answers about models and
data sets (with their files and sizes), their trees, paths and refs, searches by name, and serves files, with ranges.
Large files and those of `LFS` are redirected, as the hub does it. `Hub` says how it fails, and what it was asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

LFS = (".safetensors", ".bin", ".onnx", ".onnx_data", ".parquet", ".tar", ".zip", ".pt", ".npz", ".jpg", ".png")
"""Endings of files that the hub keeps outside of git: their ETag is a SHA-256, and their address another one."""
TOKEN = "hf_accepted"
"""The access token of an account that may read everything, the gated repositories too."""
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH")
_PLACES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE", "XDG_CACHE_HOME", "HF_HUB_OFFLINE")
_ACTION = re.compile(r"/(revision|tree|paths-info|refs|resolve)(?:/|$)")

Repository = Path | Mapping[str, Path]
Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Hub:
    """What the hub has, how it fails, and what it was asked for.

    Args:
        models: Repositories of models by name.
        datasets: Repositories of data sets by name.
        api: Status and headers of every answer about a repository; 200 for the answer itself.
        files: Status and headers of every file, likewise.
        gated: Names whose files need a token: 401 without one, 403 with another one than `TOKEN`.
        private: Names that are hidden without `TOKEN`, as if there were none.
        wait: Seconds before every answer.
        rate: Bytes per second of a file; None for as fast as it goes.
        breaks: How many answers with a file break off after `break_after` bytes.
        break_after: See `breaks`.
        fetched: Names of the files that were sent, in order, without their repository; also those that broke off.
        starts: The first byte of each of `fetched`: more than 0 where a download was continued.
        asked: Method and path of every request.
        address: Such as "http://127.0.0.1:41234".
    """

    models: Mapping[str, Repository]
    datasets: Mapping[str, Repository] = field(default_factory=dict)
    api: tuple[int, dict[str, str]] = (200, {})
    files: tuple[int, dict[str, str]] = (200, {})
    gated: set[str] = field(default_factory=set)
    private: set[str] = field(default_factory=set)
    wait: float = 0.0
    rate: float | None = None
    breaks: int = 0
    break_after: int = 0
    fetched: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    address: str = ""

    def point(self, monkeypatch, cache: Path) -> None:
        """Makes the hub's library in this process use this hub, and a cache of its own without a token."""
        from huggingface_hub import HfFileSystem, constants, file_download, hf_api

        HfFileSystem.clear_instance_cache()
        monkeypatch.setattr(hf_api.api, "endpoint", self.address)  # of the functions of the package
        template = self.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "ENDPOINT", self.address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(file_download, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(cache / "token"))
        for name in (*_PROXIES, *_TOKENS):
            monkeypatch.delenv(name, raising=False)

    def environment(self, home: Path, **further: str) -> dict[str, str]:
        """The variables of another process that is to use this hub, with the caches in a folder of its own.

        Args:
            home: The folder: `HF_HOME` and `LIMNER_CACHE` are in it.
            further: Further variables, such as `HF_TOKEN`.
        """
        unset = {*_PROXIES, *_TOKENS, *_PLACES}
        inherited = {name: value for name, value in os.environ.items() if name not in unset}
        places = {"HF_HOME": str(home / "hf"), "LIMNER_CACHE": str(home / "limner")}
        return {**inherited, **places, "HF_ENDPOINT": self.address, "HF_HUB_DISABLE_XET": "1", **further}

    def commit(self, name: str, revision: str = "main", *, kind: str = "models") -> str:
        """The commit of a revision of a repository: 40 hexadecimal digits."""
        return _commit(_revisions((self.datasets if kind == "datasets" else self.models)[name])[revision])

    def cached(self, cache: Path, name: str, revision: str = "main", *, kind: str = "models") -> Path:
        """The folder of a repository in the cache of the hub's library."""
        folder = f"{kind}--{name.replace('/', '--')}"
        return cache / folder / "snapshots" / self.commit(name, revision, kind=kind)


@contextmanager
def hub_of(
    models: Mapping[str, Repository] | None = None, *, datasets: Mapping[str, Repository] | None = None
) -> Iterator[Hub]:
    """Serves folders as repositories, by their names, on a free port of this machine.

    Args:
        models: Folders by name, "somebody/tiny"; or the folder of each revision.
        datasets: Likewise for data sets.
    """
    served = Hub({} if models is None else models, {} if datasets is None else datasets)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.send(*answer_of(served, "HEAD", self.path, self.headers, b""), body=False)

        def do_GET(self) -> None:
            self.send(*answer_of(served, "GET", self.path, self.headers, b""))

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send(*answer_of(served, "POST", self.path, self.headers, sent))

        def send(self, status: int, headers: dict[str, str], content: bytes, *, body: bool = True) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            is_file = "/cdn/" in self.path or "/resolve/" in self.path
            try:
                if body and is_file and status in (200, 206):
                    self.send_file(content)
                elif body:
                    self.wfile.write(content)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def send_file(self, content: bytes) -> None:
            if served.breaks > 0 and len(content) > served.break_after:
                served.breaks -= 1
                content, self.close_connection = content[: served.break_after], True
            step = len(content) if served.rate is None else max(1, int(served.rate / 20))
            for low in range(0, len(content), max(step, 1)):
                self.wfile.write(content[low : low + step])
                self.wfile.flush()
                time.sleep(0.0 if served.rate is None else step / served.rate)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        served.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()


# --- answers ----------------------------------------------------------------------------------------------------


def answer_of(hub: Hub, method: str, path: str, headers: Mapping[str, str], sent: bytes) -> Answer:
    """Status, headers and content of the answer to a request."""
    time.sleep(hub.wait)
    hub.asked.append(f"{method} {path}")
    parts = urlsplit(path)
    place, query = parts.path, parse_qs(parts.query)
    token = headers.get("Authorization", "").removeprefix("Bearer ")
    if place in ("/api/models", "/api/datasets"):
        return _search(hub, place.rpartition("/")[2], query.get("search", [""])[0])
    is_api = place.startswith("/api/")
    address = place.removeprefix("/api").removeprefix("/cdn")
    kind = "datasets" if address.startswith("/datasets/") else "models"
    name, action, revision, inside = _parsed(address.removeprefix(f"/{kind}/").removeprefix("/"))
    repository = (hub.datasets if kind == "datasets" else hub.models).get(name)
    status, extra = hub.api if is_api else hub.files
    if status != 200:
        return status, extra, b"{}"
    if repository is None or (name in hub.private and token != TOKEN):
        return (404 if token else 401), {"X-Error-Code": "RepoNotFound"}, b'{"error":"Repository not found"}'
    folder = _folder(repository, revision)
    if action == "refs":
        branches = [
            {"name": each, "ref": f"refs/heads/{each}", "targetCommit": _commit(f)}
            for each, f in _revisions(repository).items()
        ]
        return _json({"branches": branches, "tags": [], "converts": []})
    if folder is None:
        return 404, {"X-Error-Code": "RevisionNotFound"}, b'{"error":"Invalid rev id"}'
    if is_api:
        return _about(hub, kind, name, folder, action, inside, query, sent)
    if name in hub.gated and token != TOKEN:
        return (403 if token else 401), {"X-Error-Code": "GatedRepo"}, b""
    return _file(hub, method, place, folder, inside, headers.get("Range"))


def _parsed(address: str) -> tuple[str, str, str, str]:
    """The name, the action, the revision and the path inside of it; "main" for an address without a revision."""
    hit = _ACTION.search(address)
    if hit is None:
        return unquote(address), "", "main", ""
    revision, _, inside = address[hit.end() :].partition("/")
    return unquote(address[: hit.start()]), hit[1], unquote(revision) or "main", unquote(inside)


def _search(hub: Hub, kind: str, words: str) -> Answer:
    named = hub.datasets if kind == "datasets" else hub.models
    names = [name for name in named if words.lower() in name.lower() and name not in hub.private]
    return _json([{"id": name, "modelId": name} for name in names])


def _about(
    hub: Hub, kind: str, name: str, folder: Path, action: str, inside: str, query: Mapping[str, list[str]], sent: bytes
) -> Answer:
    if action == "tree":
        deep = query.get("recursive", ["False"])[0].lower() == "true"
        tree = _tree(folder, inside, deep=deep)
        return _json(tree) if tree or not inside else (404, {"X-Error-Code": "EntryNotFound"}, b"{}")
    if action == "paths-info":
        paths = parse_qs(sent.decode()).get("paths", []) if not sent.startswith(b"{") else json.loads(sent)["paths"]
        entries = {entry["path"]: entry for entry in _tree(folder, "", deep=True)}
        return _json([entries[path.strip("/")] for path in paths if path.strip("/") in entries])
    described = [entry for entry in _tree(folder, "", deep=True) if entry["type"] == "file"]
    siblings = [{"rfilename": entry["path"]} for entry in described]
    if "blobs" in query:
        for sibling, entry in zip(siblings, described, strict=True):
            sibling |= {"size": entry["size"], "blobId": entry["oid"]}
            if "lfs" in entry:
                sibling["lfs"] = {"sha256": entry["lfs"]["oid"], "size": entry["size"], "pointerSize": 130}
    gated = "manual" if name in hub.gated else False
    about = {"id": name, "sha": _commit(folder), "private": name in hub.private, "gated": gated, "siblings": siblings}
    return _json({**about, "tags": [], "downloads": 0, **({"modelId": name} if kind == "models" else {})})


def _tree(folder: Path, inside: str, *, deep: bool) -> list[dict]:
    """Entries of a folder of a repository, as its API lists them; folders come with their files."""
    top = folder / inside
    places = sorted(top.rglob("*") if deep else top.iterdir()) if top.is_dir() else []
    entries = []
    for place in places:
        path = place.relative_to(folder).as_posix()
        if place.is_dir():
            entries.append(
                {"type": "directory", "path": path, "size": 0, "oid": hashlib.sha1(path.encode()).hexdigest()}
            )
            continue
        entry = {"type": "file", "path": path, "size": place.stat().st_size, "oid": _git_hash(place)}
        if place.suffix in LFS:
            entry["lfs"] = {"oid": _sha256(place), "size": entry["size"], "pointerSize": 130}
        entries.append(entry)
    return entries


def _file(hub: Hub, method: str, place: str, folder: Path, name: str, byte_range: str | None) -> Answer:
    file = folder / name
    commit = {"X-Repo-Commit": _commit(folder), "Accept-Ranges": "bytes"}
    if not file.is_file():
        return 404, {**commit, "X-Error-Code": "EntryNotFound"}, b""
    is_lfs = file.suffix in LFS
    tag = f'"{_sha256(file) if is_lfs else _git_hash(file)}"'
    if is_lfs and not place.startswith("/cdn/"):
        linked = {"X-Linked-Etag": tag, "X-Linked-Size": str(file.stat().st_size)}
        return 302, {**commit, **linked, "Location": f"{hub.address}/cdn{quote(place)}"}, b""
    content = file.read_bytes()
    low, high = _range(byte_range, len(content))
    if low > high and byte_range:
        return 416, {**commit, "Content-Range": f"bytes */{len(content)}"}, b""
    if method == "GET":
        hub.fetched.append(name)
        hub.starts.append(low)
    headers = {**commit, "ETag": tag}
    if not byte_range:
        return 200, headers, content
    return 206, {**headers, "Content-Range": f"bytes {low}-{high}/{len(content)}"}, content[low : high + 1]


def _range(byte_range: str | None, size: int) -> tuple[int, int]:
    """The first and the last byte of "bytes=low-high", "bytes=low-" or "bytes=-last"."""
    low, _, high = (byte_range or "").removeprefix("bytes=").partition("-")
    if not low and high:
        return max(0, size - int(high)), size - 1
    return int(low or 0), min(int(high), size - 1) if high else size - 1


def _json(content: object) -> Answer:
    return 200, {"Content-Type": "application/json"}, json.dumps(content).encode()


# --- repositories -----------------------------------------------------------------------------------------------


def _revisions(repository: Repository) -> Mapping[str, Path]:
    return {"main": repository} if isinstance(repository, Path) else repository


def _folder(repository: Repository, revision: str) -> Path | None:
    """The folder of a branch, a tag or a commit; None if there is none."""
    revisions = _revisions(repository)
    name = revision.removeprefix("refs/heads/")
    if name in revisions:
        return revisions[name]
    return next((folder for folder in revisions.values() if _commit(folder) == revision), None)


def _commit(folder: Path) -> str:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    listing = "\n".join(f"{file.relative_to(folder).as_posix()} {_git_hash(file)}" for file in files)
    return hashlib.sha1(listing.encode()).hexdigest()


def _git_hash(file: Path) -> str:
    content = file.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
