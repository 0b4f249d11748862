"""The cache: nothing is encoded twice, a killed run resumes, a changed file is encoded again, models never mix."""

from __future__ import annotations

import numpy as np
import pytest

import limner
from limner.core.errors import LimnerError
from limner.encoders.batching import PART_SECONDS, by_length, paced
from limner.encoders.cache import Cached, RowStore, keys_of


class Lengths:
    """An encoder that counts what it is asked, and dies when told to."""

    dim = 2

    def __init__(self, *, dies_at=None, fingerprint="lengths 1"):
        self.seen, self.dies_at, self.fingerprint = [], dies_at, fingerprint

    def encode(self, items):
        for value in items.values:
            if self.dies_at is not None and len(self.seen) >= self.dies_at:
                raise KeyboardInterrupt
            self.seen.append(value)
        return np.array([[len(self._content(v)), 1.0] for v in items.values])

    def _content(self, value):
        return value.read_bytes() if hasattr(value, "read_bytes") else value


def texts(values):
    return limner.Items([f"t{n}" for n in range(len(values))], values, kind="text")


def test_nothing_is_encoded_twice(tmp_path):
    items = texts(["a", "bb", "a", "cccc"])
    first, second = Lengths(), Lengths()
    cached = Cached(first, tmp_path)
    assert cached.encode(items)[:, 0].tolist() == [1, 2, 1, 4] and first.seen == ["a", "bb", "cccc"]
    reopened = Cached(second, tmp_path)
    assert reopened.encode(items).tolist() == [[1, 1], [2, 1], [1, 1], [4, 1]]
    assert second.seen == [] and reopened.reused == 4


def test_a_killed_run_resumes_where_it_was(tmp_path):
    items = texts([f"{'x' * n}" for n in range(1, 101)])
    dying, calls = Lengths(dies_at=57), []
    with pytest.raises(KeyboardInterrupt):
        Cached(dying, tmp_path, every=10).encode(items)
    resumed = Lengths()
    vectors = Cached(resumed, tmp_path, every=10).encode(items, progress=lambda *t: calls.append(t))
    assert len(resumed.seen) == 50 and vectors[:, 0].tolist() == list(range(1, 101))


class Clock:
    """A clock that moves when something is encoded."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Slow(Lengths):
    """One that takes its time for every item, and a while to begin."""

    def __init__(self, clock, *, seconds, starts=0.0, **how):
        super().__init__(**how)
        self.clock, self.seconds, self.starts = clock, seconds, starts

    def encode(self, items):
        self.clock.now += self.starts
        self.starts = 0.0
        for value in items.values:
            super().encode(limner.Items([0], [value], kind="text"))
            self.clock.now += self.seconds
        return np.array([[len(v), 1.0] for v in items.values])


@pytest.mark.parametrize("seconds", [0.01, 0.2, 1.0, 9.0])
def test_a_kill_loses_seconds_of_a_slow_encoder_and_not_two_thousand_items(tmp_path, monkeypatch, seconds):
    clock = Clock()
    monkeypatch.setattr("limner.encoders.batching.monotonic", clock)
    dying = Slow(clock, seconds=seconds, dies_at=1990)
    with pytest.raises(KeyboardInterrupt):
        Cached(dying, tmp_path).encode(texts([f"text {n}" for n in range(2500)]))
    lost = 1990 - len(Cached(Lengths(), tmp_path).store)
    assert lost * seconds <= max(PART_SECONDS, seconds), f"{lost} items of {seconds} s each"


def test_a_quick_encoder_is_asked_for_many_at_once(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr("limner.encoders.batching.monotonic", clock)
    quick = Slow(clock, seconds=0.0001, starts=30.0)
    Cached(quick, tmp_path).encode(texts([f"text {n}" for n in range(20_000)]))
    assert len(list(tmp_path.rglob("part-*"))) < 20


@pytest.mark.parametrize(("total", "max_items"), [(0, 5), (1, 1), (100, 7), (5000, 4096)])
def test_pieces_cover_everything_once_in_order(total, max_items):
    pieces = list(paced(total, max_items=max_items))
    assert [row for piece in pieces for row in range(total)[piece]] == list(range(total))
    assert all(1 <= len(range(total)[piece]) <= max_items for piece in pieces)


def test_a_changed_file_is_encoded_again(tmp_path):
    files = [tmp_path / f"{n}.jpg" for n in range(3)]
    for number, file in enumerate(files):
        file.write_bytes(b"p" * (number + 1))
    items = limner.Items(["a", "b", "c"], files)
    Cached(Lengths(), tmp_path / "cache").encode(items)
    files[1].write_bytes(b"changed")
    after = Lengths()
    assert Cached(after, tmp_path / "cache").encode(items)[:, 0].tolist() == [1, 7, 3]
    assert after.seen == [files[1]]
    files[2].unlink()
    with pytest.raises(LimnerError, match=r"image 'c': no file .*2\.jpg"):
        Cached(Lengths(), tmp_path / "cache").encode(items)


def test_drawn_pictures_are_known_by_their_pixels(tmp_path):
    class Means(Lengths):
        def encode(self, items):
            self.seen += items.ids
            return np.array([[np.asarray(items.open(row)).mean(), 1.0] for row in range(len(items))])

    images, first, second = limner.load("scenes", images=10).images, Means(), Means()
    vectors = Cached(first, tmp_path).encode(images)
    cached = Cached(second, tmp_path).encode(limner.load("scenes", images=10).images)
    assert len(first.seen) == 10 and second.seen == [] and (vectors == cached).all()


def test_models_never_mix(tmp_path):
    Cached(Lengths(), tmp_path).encode(texts(["a"]))
    changed = Lengths(fingerprint="lengths 2")
    Cached(changed, tmp_path).encode(texts(["a"]))
    assert changed.seen == ["a"]


def test_refusals_and_damage(tmp_path):
    class Nameless:
        dim = 2

    with pytest.raises(LimnerError, match="has no fingerprint"):
        Cached(Nameless(), tmp_path)
    with pytest.raises(LimnerError, match="has no dim, which a cache needs: add the dimension"):
        Cached(object(), tmp_path, name="mine")
    cached = Cached(Lengths(), tmp_path)
    cached.encode(texts(["a"]))
    (part,) = cached.store.folder.glob("part-*")
    part.write_bytes(part.read_bytes()[:-3])
    with pytest.raises(LimnerError, match="not a valid part of a cache"):
        Cached(Lengths(), tmp_path)


@pytest.mark.parametrize("at", [0.2, 0.5, 0.9, 1.0])
def test_changed_bytes_of_a_part_are_noticed(tmp_path, at):
    """Vectors are any numbers: only a checksum tells that one bit of a key or of a row has changed."""
    cached = Cached(Lengths(), tmp_path)
    cached.encode(texts([f"text {n}" for n in range(30)]))
    (part,) = cached.store.folder.glob("part-*")
    data = bytearray(part.read_bytes())
    head = 8 + int.from_bytes(data[:8], "little")  # the header of a safetensors file
    data[head + round(at * (len(data) - head - 1))] ^= 1
    part.write_bytes(data)
    with pytest.raises(LimnerError, match=r"part-.* do not match its checksum\): delete it; it will be recomputed"):
        Cached(Lengths(), tmp_path)


def test_a_part_without_a_checksum_is_refused(tmp_path):
    from safetensors.numpy import load_file, save_file

    cached = Cached(Lengths(), tmp_path)
    cached.encode(texts(["a"]))
    (part,) = cached.store.folder.glob("part-*")
    save_file(load_file(part), part)
    with pytest.raises(LimnerError, match="checksum"):
        Cached(Lengths(), tmp_path)


def test_a_store_against_a_dictionary(tmp_path):
    rng = np.random.default_rng(0)
    store, expected = RowStore(tmp_path, owner="x", width=1, dtype="float64"), {}
    for _ in range(20):
        fresh = [rng.bytes(16) for _ in range(rng.integers(0, 9))]
        values = rng.standard_normal((len(fresh), 1))
        store.put(keys_of(fresh), values)
        expected |= dict(zip(fresh, values[:, 0], strict=True))
        keys = [*rng.permutation(np.array(list(expected), dtype="S16").tolist())[:5], rng.bytes(16)]
        keys = [bytes(a).ljust(16, b"\0") for a in keys]
        is_stored, rows = store.get(keys_of(keys))
        assert is_stored.tolist() == [a in expected for a in keys]
        assert [r for r, k in zip(rows[:, 0], is_stored, strict=True) if k] == [
            expected[a] for a in keys if a in expected
        ]
    assert len(RowStore(tmp_path, owner="x", width=1, dtype="float64")) == len(expected)


def test_batches_hold_everything_once_and_keep_the_budget():
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 60, 300)
    batches = list(by_length(lengths, budget=100, max_rows=7))
    assert sorted(np.concatenate(batches).tolist()) == list(range(300))
    assert all(len(b) * lengths[b].max() <= 100 or len(b) == 1 for b in batches)
    assert max(map(len, batches)) <= 7
