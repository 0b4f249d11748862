"""Retrieval measured batch by batch: the numbers are those of one evaluation of everything."""

import numpy as np
import pytest

import limner
import toys
from limner import LimnerError
from limner.evaluation import RetrievalMeter


@pytest.fixture(scope="module")
def sides():
    toy = toys.collection(20, 5)
    scores = toys.scores(toy, noise=1.0)
    return toy, scores, scores.query_vectors.matrix, scores.candidate_vectors.matrix


def batched(meter, toy, images, texts, size, *, tensor=lambda rows: rows):
    """Batches of captions with their images, which come again in several batches."""
    for start in range(0, len(texts), size):
        rows = np.arange(start, min(start + size, len(texts)))
        owners = rows // 5
        meter.update(
            tensor(images[owners]), tensor(texts[rows]),
            images=[toy.images.ids[int(o)] for o in owners], owners=[toy.images.ids[int(o)] for o in owners],
        )  # fmt: skip
    return meter


@pytest.mark.parametrize("size", [1, 7, 100])
def test_the_batch_size_does_not_matter(sides, size):
    toy, scores, images, texts = sides
    expected = limner.evaluate(scores, toy, measures="R@1 R@5 MedR rsum")
    meter = batched(RetrievalMeter("R@1 R@5 MedR rsum"), toy, images, texts, size)
    assert meter.compute() == {f"{r.direction} {r.measure}": pytest.approx(r.value) for r in expected.results}
    assert meter.report("step 3").system == "step 3"


def test_tensors_with_gradients_and_a_reset(sides):
    torch = pytest.importorskip("torch")
    toy, _, images, texts = sides
    meter = RetrievalMeter("R@1")
    batched(meter, toy, images, texts, 10, tensor=lambda rows: torch.tensor(rows, requires_grad=True))
    first = meter.compute()
    meter.reset()
    with pytest.raises(LimnerError, match="nothing was added"):
        meter.compute()
    batched(meter, toy, images, texts, 50)
    assert meter.compute() == first


def test_a_batch_may_be_overwritten():
    meter, rows = RetrievalMeter("R@1"), np.eye(2)
    meter.update(rows, rows)
    rows[:] = 0.5
    assert meter.compute()["i2t R@1"] == 1.0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda m: m.update([1.0, 2.0], [[1.0]]), "a row per image"),
        (lambda m: m.update(np.eye(2), np.eye(2), images=["a"]), "one id each"),
        (lambda m: m.update(np.eye(2), np.eye(3)[:, :2], images=["a", "b"]), "one id each"),
    ],
)
def test_what_is_refused(call, says):
    with pytest.raises(LimnerError, match=says):
        call(RetrievalMeter())


def test_a_text_of_an_image_that_never_came():
    meter = RetrievalMeter("R@1")
    meter.update(np.eye(2), np.eye(2), images=["a", "b"], owners=["a", "c"])
    with pytest.raises(LimnerError, match="'c'"):
        meter.compute()
    with pytest.raises(LimnerError, match="unknown measure"):
        RetrievalMeter("R@x")
