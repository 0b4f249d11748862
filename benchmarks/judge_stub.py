"""A stub of an OpenAI-compatible endpoint on loopback, with a latency and faults, for benchmarks and tests.

It answers every question with numbers that depend on the words of the captions alone, and counts how often it was
asked for each pair and how often it answered.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FAULTS = ("429", "500", "cut", "wrong json")


class Stub(ThreadingHTTPServer):
    """The endpoint.

    Args:
        latency: Seconds before each answer.
        faults: The share of requests that fail, each kind of fault equally often.
        per_second: Requests per second; more are refused with status 429. None for no limit.
        seed: Seed of the faults.
    """

    request_queue_size = 256
    daemon_threads = True

    def __init__(
        self, *, latency: float = 0.0, faults: float = 0.0, per_second: float | None = None, seed: int = 0
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.latency, self.faults, self.per_second = latency, faults, per_second
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.starts: list[float] = []
        self.in_flight = self.highest = 0

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def fault(self) -> str:
        """The fault of the next request; empty for none."""
        with self.lock:
            time_now = time.monotonic()
            self.starts = [start for start in self.starts if time_now - start < 1]
            if self.per_second is not None and len(self.starts) >= self.per_second:
                return "429"
            self.starts.append(time_now)
            return self.random.choice(FAULTS) if self.random.random() < self.faults else ""


class _Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        pairs = pairs_of(body)
        with self.server.lock:
            self.server.asked.update(pairs)
            self.server.in_flight += 1
            self.server.highest = max(self.server.highest, self.server.in_flight)
        try:
            self._answer(body, pairs, self.server.fault())
        except OSError:  # the client has gone
            self.close_connection = True
        finally:
            with self.server.lock:
                self.server.in_flight -= 1

    def _answer(self, body: dict[str, Any], pairs: list[str], fault: str) -> None:
        time.sleep(self.server.latency)
        with self.server.lock:
            self.server.statuses[fault or "200"] += 1
        if fault in ("429", "500"):
            self.send_response(int(fault))
            self.send_header("Retry-After", "0")
            self.end_headers()
            return
        if fault == "cut":
            self.close_connection = True
            return
        content = b"{wrong" if fault else json.dumps(reply_to(body, pairs)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        if not fault:
            with self.server.lock:
                self.server.answered.update(pairs)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def pairs_of(body: dict[str, Any]) -> list[str]:
    """A name for each pair of a question, from the bytes of its image and its caption."""
    content = body["messages"][1]["content"]
    images = [each["image_url"]["url"] for each in content if each["type"] == "image_url"]
    text = next(each["text"] for each in content if each["type"] == "text")
    value = json.loads(text[text.index("JSON string") :].partition(": ")[2])
    captions = value if isinstance(value, list) else [value]
    number = max(len(images), len(captions))
    images, captions = (each * number if len(each) == 1 else each for each in (images, captions))
    return [
        hashlib.sha256(f"{image} {caption}".encode()).hexdigest()
        for image, caption in zip(images, captions, strict=True)
    ]


def reply_to(body: dict[str, Any], pairs: list[str]) -> dict[str, Any]:
    """A well-formed answer."""
    values = [int(pair[:4], 16) / 0xFFFF for pair in pairs]
    is_choice = '{"answer":' in body["messages"][0]["content"]
    entries = ["yes" if value > 0.5 else "no" for value in values] if is_choice else values
    content = json.dumps({"answer" if is_choice else "match": entries if len(pairs) > 1 else entries[0]})
    usage = {"prompt_tokens": 400 * len(pairs), "completion_tokens": 8 * len(pairs)}
    return {"choices": [{"message": {"content": content}}], "usage": usage}


@contextmanager
def running(**settings: Any) -> Iterator[Stub]:
    """A stub that answers until the block ends."""
    stub = Stub(**settings)
    threading.Thread(target=stub.serve_forever, name="judge-stub", daemon=True).start()
    try:
        yield stub
    finally:
        stub.shutdown()
        stub.server_close()
