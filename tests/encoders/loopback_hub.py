"""A hub of models on localhost, with the requests that huggingface_hub makes to list and fetch the files of one."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

SHA = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What the hub has, how it fails, and the files it was asked for."""

    models: Mapping[str, Path]
    api: tuple[int, dict[str, str]] = (200, {})
    """Status and headers of every answer about a model."""
    files: tuple[int, dict[str, str]] = (200, {})
    """Status and headers of every file."""
    wait: float = 0.0
    fetched: list[str] = field(default_factory=list)
    address: str = ""

    def point(self, monkeypatch, cache: Path) -> None:
        """Makes the hub's library use this hub, and a cache of its own."""
        from huggingface_hub import constants, file_download

        template = self.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", self.address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(file_download, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(cache / "token"))
        for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HF_TOKEN"):
            monkeypatch.delenv(name, raising=False)


@contextmanager
def hub_of(models: Mapping[str, Path]) -> Iterator[Hub]:
    """Serves folders as repositories, by their names."""
    served = Hub(models)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answered(*self.result(), body=False)

        def do_GET(self) -> None:
            self.answered(*self.result())

        def result(self) -> tuple[int, dict[str, str], bytes]:
            time.sleep(served.wait)
            place = unquote(urlsplit(self.path).path)
            if place.startswith("/api/models/"):
                return self.about(place.removeprefix("/api/models/"))
            model, _, place = place[1:].partition("/resolve/")
            name = place.partition("/")[2]
            file = served.models.get(model, Path("nowhere")) / name
            status, headers = served.files
            if status != 200 or not file.is_file():
                return (status if status != 200 else 404), headers, b""
            content = file.read_bytes()
            if self.command == "GET":
                served.fetched.append(name)
            named = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": SHA}
            return 200, named, content

        def about(self, place: str) -> tuple[int, dict[str, str], bytes]:
            status, headers = served.api
            model = "/".join(place.split("/")[:2])
            if status == 200 and model not in served.models:
                status, headers = 404, {"X-Error-Code": "RepoNotFound"}
            if status != 200:
                return status, headers, b"{}"
            folder = served.models[model]
            files = sorted(file for file in folder.rglob("*") if file.is_file())
            names = [str(file.relative_to(folder)) for file in files]
            if "/tree/" in place:
                sized = zip(names, files, strict=True)
                tree = [{"type": "file", "path": n, "size": f.stat().st_size, "oid": "0" * 40} for n, f in sized]
                return 200, {}, json.dumps(tree).encode()
            description = {
                "id": model,
                "modelId": model,
                "sha": SHA,
                "siblings": [{"rfilename": name} for name in names],
            }
            return 200, {}, json.dumps(description).encode()

        def answered(self, status: int, headers: dict[str, str], content: bytes, *, body: bool = True) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
