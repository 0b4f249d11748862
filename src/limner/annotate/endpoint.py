"""A judge behind an OpenAI-compatible HTTP endpoint: sends images and captions and receives scores from 0 to 1.

The operator names the endpoint and the model. The key comes from an environment variable and is never written to the
store, the cache, a log, a message or a page. Redirects are not followed, since they would send the key to another host.
Prompts and the reading of answers are in `limner.annotate.judge_prompts`, concurrent runs in
`limner.annotate.judge_runs`.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import json
import os
import random
import re
import threading
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from limner.annotate.endpoint_requests import ReplyCache, RequestPace, content_key, retry_after
from limner.annotate.judge_prompts import (
    ALTERNATIVES,
    NoAnswer,
    NoPicture,
    Prompt,
    Reply,
    WrongForm,
    read_reply,
    user_message,
)
from limner.annotate.store.contents import Key
from limner.core.arrays import FloatArray
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError
from limner.core.images import Unreadable

KEY = "LIMNER_JUDGE_KEY"
"""The default environment variable for the key."""
_LONGEST = 1_000_000  # characters of a reply that are read
_AGAIN = (408, 409, 425, 429, 500, 502, 503, 504, 529)
_SIDE = 512
_IMAGES = 256  # scaled images in memory


@dataclass
class Spent:
    """The cost so far.

    Args:
        requests: Requests that were sent.
        input_tokens: Tokens of questions.
        output_tokens: Tokens of answers.
        failed: Pairs without an answer.
        cached: Pairs whose answer was in the cache.
        without_probabilities: Answers without the requested probabilities of tokens.
        busy_seconds: Time from asking to having the scores, with all attempts and pauses, summed over requests.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    failed: int = 0
    cached: int = 0
    without_probabilities: int = 0
    busy_seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.input_tokens + self.output_tokens

    def add(self, **counts: float) -> None:
        """Adds counts; threads may share it."""
        with self._lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)


class BudgetSpent(LimnerError):
    """The budget is spent."""


@dataclass(eq=False)
class EndpointJudge:
    """Asks a vision-language model; threads may share it.

    Args:
        url: URL of the endpoint, such as "http://localhost:8000/v1"; "/chat/completions" is added.
        model: The model's name at the endpoint.
        collection: Source of the images and captions.
        key_from: The environment variable with the key; no key is sent if it is not set.
        prompt: What is asked.
        logprobs: Whether the probabilities of tokens are requested.
        is_reversed: Whether everything that has an order comes in reverse order.
        concurrency: Requests at the same time in a run (`limner.annotate.judge_runs.ask_all`).
        pairs_per_request: Pairs of one image or one caption in a request.
        per_minute: Maximum requests per minute; None for no limit but the endpoint's own.
        price: Price of a million input tokens.
        output_price: Price of a million output tokens; by default the same.
        budget: No request is sent once the cost has reached this.
        tries: Attempts per request before its pairs count as unanswered.
        timeout: Seconds in which an attempt must be answered in full.
        wait: Seconds before the second attempt; doubled each time.
        label: Name of the judge in the store; by default from the model and the settings.
        cache: Answers by content; none by default.
        spent: The cost so far.
    """

    url: str
    model: str
    collection: Collection
    key_from: str = KEY
    prompt: Prompt = field(default_factory=lambda: Prompt.named("probability"))
    logprobs: bool = False
    is_reversed: bool = False
    concurrency: int = 8
    pairs_per_request: int = 1
    per_minute: float | None = None
    price: float | None = None
    output_price: float | None = None
    budget: float | None = None
    tries: int = 4
    timeout: float = 60.0
    wait: float = 1.0
    label: str = ""
    cache: ReplyCache | None = None
    spent: Spent = field(default_factory=Spent)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        """Refuses an invalid address, one that contains a user name or a key, and numbers that are too small."""
        if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", self.url):
            raise LimnerError(
                "the endpoint's address: expected http(s)://host/path, without a name, key or question mark"
            )
        limits = {"per_minute": self.per_minute, "tries": self.tries, "concurrency": self.concurrency}
        limits |= {"pairs_per_request": self.pairs_per_request, "budget": self.budget}
        for name, value in limits.items():
            if value is not None and not value > 0:
                raise LimnerError(f"{name} {value:g}: expected a number above 0")
        if self.budget is not None and self.price is None:
            raise LimnerError("a budget without a price: expected the price of a million tokens too")
        if self.logprobs and not self.prompt.scores:
            raise LimnerError("logprobs with a prompt that asks for a probability: use the prompt 'grades' or 'yes'")
        self._pace = RequestPace(self.per_minute, clock=self.clock, sleep=self.sleep)
        self._images = _ScaledImages(self.collection.images)
        self._opener = urllib.request.build_opener(_NoRedirect)

    @property
    def name(self) -> str:
        """The model's name, with the settings that change what it answers."""
        words = {f", {self.prompt.name}": self.prompt.name != "probability", ", token probabilities": self.logprobs}
        words |= {f", {self.pairs_per_request} pairs at once": self.pairs_per_request > 1}
        settings = "".join(word for word, applies in words.items() if applies)
        return (self.label or f"endpoint {self.model}{settings}") + (", reversed" if self.is_reversed else "")

    @property
    def about(self) -> dict[str, object]:
        """What the store records of the judge: endpoint, model, prompt and settings, without the key."""
        settings = {"logprobs": self.logprobs, "reversed": self.is_reversed, "at once": self.pairs_per_request}
        return {"url": self.url, "model": self.model, "prompt": self._question, "image side": _SIDE, **settings}

    @property
    def cost(self) -> float | None:
        """The cost so far; None without a price."""
        if self.price is None:
            return None
        output_price = self.price if self.output_price is None else self.output_price
        return (self.price * self.spent.input_tokens + output_price * self.spent.output_tokens) / 1_000_000

    def probabilities(self, pairs: Sequence[Key]) -> FloatArray:
        """One score per pair; raises an error if a pair is not answered."""
        return np.array([self.ask(pair) for pair in pairs])

    def ask(self, pair: Key) -> float:
        """The model's score for one pair."""
        return self.ask_together([pair])[pair]

    def requests(self, pairs: Sequence[Key]) -> list[list[Key]]:
        """The pairs of each request: pairs of one image or of one caption, whichever needs fewer requests."""
        return min((_grouped(pairs, side, self.pairs_per_request) for side in (0, 1)), key=len)

    def ask_together(self, pairs: Sequence[Key]) -> dict[Key, float]:
        """The scores of pairs that share an image or a caption, from the cache or from one request.

        If the model does not answer several pairs in the expected form, each is asked alone; pairs that are still not
        answered are missing, and so are those whose image cannot be read.
        """
        readable = [pair for pair in pairs if self._images.is_readable(pair[0])]
        if not readable:
            raise NoPicture(f"image {pairs[0][0]!r} cannot be read")
        keys = {pair: self._content_key(pair) for pair in readable} if self.cache else {}
        cached = {pair: self.cache.get(key) for pair, key in keys.items()} if self.cache else {}
        scores = {pair: score for pair, score in cached.items() if score is not None}
        self.spent.add(cached=len(scores))
        unanswered = [pair for pair in readable if pair not in scores]
        if not unanswered:
            return scores
        began = self.clock()
        try:
            new_scores = self._scores_of(unanswered)
        except WrongForm:
            new_scores = self._one_by_one(unanswered)
        finally:
            self.spent.add(busy_seconds=self.clock() - began)
        if self.cache:
            self.cache.put({keys[pair]: score for pair, score in new_scores.items()})
        return scores | new_scores

    def _one_by_one(self, pairs: Sequence[Key]) -> dict[Key, float]:
        scores: dict[Key, float] = {}
        for pair in pairs:
            try:
                scores |= self._scores_of([pair])
            except NoAnswer as error:
                reason = error
        if not scores:
            raise reason
        return scores

    def _scores_of(self, pairs: Sequence[Key]) -> dict[Key, float]:
        """The scores of the pairs of one request, with repeated attempts."""
        body = json.dumps(self._request(pairs)).encode()
        reason = ""
        for number in range(self.tries):
            if number:
                self.sleep(self.wait * 2 ** (number - 1) * random.uniform(0.5, 1.0))
            if self.budget is not None and (self.cost or 0.0) >= self.budget:
                raise BudgetSpent(f"the budget of {self.budget:g} is spent: raise it to go on")
            self._pace.wait()
            self.spent.add(requests=1)
            try:
                reply = read_reply(_with_timeout(self.timeout, lambda: self._sent(body)))
                scores = self._read(reply, len(pairs))
            except _Later as error:
                reason = str(error)
                if error.is_refusal:
                    self._pace.count_refusal(error.seconds)
            except WrongForm as error:
                if len(pairs) > 1:
                    raise
                reason = str(error)
            except NoAnswer as error:
                reason = str(error)
            else:
                self._pace.count_answer()
                return dict(zip(pairs, scores, strict=True))
        self.spent.add(failed=len(pairs))
        image, caption = pairs[0]
        raise NoAnswer(f"image {image!r}, caption {caption!r}: no answer in {self.tries} tries ({self._clean(reason)})")

    @property
    def _question(self) -> str:
        return self.prompt.system_message(self.pairs_per_request)

    def _content_key(self, pair: Key) -> str:
        about = {name: value for name, value in self.about.items() if name != "image side"}
        return content_key(about, self._images.digest(pair[0]), self._caption(pair[1]))

    def _caption(self, key: str) -> str:
        texts = self.collection.texts
        return str(texts.values[texts.ids.index(key)])

    def _request(self, pairs: Sequence[Key]) -> dict[str, object]:
        ordered = list(pairs)[::-1] if self.is_reversed else list(pairs)
        images, captions = (list(dict.fromkeys(pair[side] for pair in ordered)) for side in (0, 1))
        urls, texts = [self._images.url(image) for image in images], [self._caption(key) for key in captions]
        content = user_message(urls, texts, is_reversed=self.is_reversed)
        messages = [
            {"role": "system", "content": self.prompt.system_message(len(pairs))},
            {"role": "user", "content": content},
        ]
        token_options = {"logprobs": True, "top_logprobs": max(ALTERNATIVES, len(self.prompt.scores))}
        limits = {"temperature": 0, "max_tokens": 20 + 10 * (len(pairs) - 1)}
        return {"model": self.model, "messages": messages, **limits, **(token_options if self.logprobs else {})}

    def _read(self, reply: Reply, number: int) -> list[float]:
        """The scores in an answer, in the order of the pairs."""
        self.spent.add(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens)
        if self.logprobs and not isinstance(reply.tokens, list):
            self.spent.add(without_probabilities=1)
        scores = self.prompt.read(reply.content, number, reply.tokens if self.logprobs else None)
        return scores[::-1] if self.is_reversed else scores

    def _sent(self, body: bytes) -> str:
        headers = {"Content-Type": "application/json"}
        key = os.environ.get(self.key_from)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self.url.rstrip("/") + "/chat/completions", body, headers, method="POST")
        try:
            with self._opener.open(request, timeout=self.timeout) as reply:
                return str(reply.read(_LONGEST).decode("utf-8", "replace"))
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error.code, error.headers.get("Retry-After")) from None
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from None

    def _refusal(self, status: int, pause: str | None) -> LimnerError:
        """The error of an HTTP status."""
        if status in _AGAIN:
            return _Later(status, retry_after(pause))
        if status in (401, 403):
            return LimnerError(f"the endpoint refused the key (status {status}): set {self.key_from} to a valid one")
        settings = {"logprobs": self.logprobs, "several pairs in a request": self.pairs_per_request > 1}
        used = " and ".join(name for name, applies in settings.items() if applies)
        hint = f", and whether the model takes {used}" if used else ""
        return LimnerError(f"the endpoint answered with status {status}: check address and model{hint}")

    def _clean(self, text: str) -> str:
        """A message without the key, in case an endpoint repeats it."""
        key = os.environ.get(self.key_from)
        return text.replace(key, "***") if key else text


def _grouped(pairs: Sequence[Key], side: int, number: int) -> list[list[Key]]:
    """Groups of at most so many pairs with the same image (side 0) or caption (side 1), in the order of the pairs."""
    by_item: dict[str, list[Key]] = {}
    for pair in pairs:
        by_item.setdefault(pair[side], []).append(pair)
    return [group[at : at + number] for group in by_item.values() for at in range(0, len(group), number)]


class _ScaledImages:
    """Images as data URLs, each scaled once as long as it is among the last few hundred."""

    def __init__(self, images: Items) -> None:
        self._source = images
        self._recent: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._lock = threading.Lock()

    def url(self, key: str) -> str:
        """The data URL of an image."""
        return self._scaled(key)[0]

    def digest(self, key: str) -> str:
        """The hash of the bytes that are sent."""
        return self._scaled(key)[1]

    def is_readable(self, key: str) -> bool:
        """Whether an image can be decoded."""
        try:
            self._scaled(key)
        except Unreadable:
            return False
        return True

    def _scaled(self, key: str) -> tuple[str, str]:
        with self._lock:
            if key in self._recent:
                self._recent.move_to_end(key)
                return self._recent[key]
        image = self._source.open(key, side=_SIDE).convert("RGB")
        out = io.BytesIO()
        image.save(out, "JPEG", quality=85)
        url = "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()
        scaled = url, hashlib.sha256(out.getvalue()).hexdigest()
        with self._lock:
            self._recent[key] = scaled
            while len(self._recent) > _IMAGES:
                self._recent.popitem(last=False)
        return scaled


class _Later(LimnerError):
    """Retry, after a pause if the endpoint asks for one."""

    def __init__(self, status: int, seconds: float) -> None:
        super().__init__(f"status {status}")
        self.is_refusal = status == 429 or seconds > 0
        self.seconds = seconds


def _with_timeout(seconds: float, work: Callable[[], str]) -> str:
    """The result of some work; refused if it takes longer, and then the work is left to itself.

    A timeout of a socket is one for each read, and a server that drips its answer never reaches it.
    """
    result: Future[str] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name="limner-judge", daemon=True).start()
    try:
        return result.result(seconds)
    except TimeoutError:
        raise NoAnswer(f"no whole answer within {seconds:g} seconds") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects."""

    def redirect_request(self, *_: object) -> None:
        """Returns None, so that the redirect becomes an error."""
