"""Tasks: the work of one annotator in one session, with controls whose answers are known.

There are two forms. Chun et al. (2022): 20 pairs, of which 18 are from the pool, one is a known positive and one a
known negative that is in no system's top 25. Hodosh et al. (2013): six images with ten captions each
(`forms/captions.toml`): a tick is a yes (grade 4), no tick is a no (grade 1); one of them is a control image (from the
development set in the paper), with one to three of its own captions among captions of others. Both are shuffled, and
the same seed gives the same tasks.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from limner.annotate.form import StudyForm
from limner.annotate.form_files import read_form
from limner.annotate.store import AlreadyFull, Store
from limner.annotate.store.answers import submit
from limner.annotate.store.contents import Key
from limner.annotate.store.tasks import Draft, Item, TaskPair
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements

REAL = 18
CAPTIONS = 10
IMAGES = 6
_TRIES = 10_000
T = TypeVar("T")


def make_tasks(
    pool: Iterable[Key],
    judgements: Judgements,
    *,
    avoid: Iterable[Key] = (),
    pooled: int = REAL,
    positives: int = 1,
    negatives: int = 1,
    seed: int = 0,
    in_order: bool = False,
    reasons: str = "optional",
) -> list[Draft]:
    """Splits a pool into tasks of `pooled` pairs and controls; the last one may be shorter.

    Args:
        pool: The pairs to judge, (image, caption).
        judgements: The original pairs, image -> text: the source of known positives; never used as negatives.
        avoid: Pairs in some system's top 25, which are never used as known negatives.
        pooled: Pooled pairs per task.
        positives: Known positives per task.
        negatives: Known negatives per task.
        seed: Seed of the random tasks.
        in_order: Whether to keep the order of the pool from task to task; within a task it is always shuffled.
        reasons: Whether "partially yes" and "mostly no" need a reason: "required" (the paper's first stage),
            "optional", or "off" (its second stage).

    >>> judgements = Judgements.from_pairs([(f"i{n}", f"t{n}") for n in range(30)])
    >>> first, second = make_tasks([(f"i{n}", f"t{n + 1}") for n in range(24)], judgements)
    >>> len(first.items), len(second.items), sum(item.role != "real" for item in first.items)
    (20, 8, 2)
    """
    draw = random.Random(seed)
    pairs = list(dict.fromkeys(pool))
    if not in_order:
        draw.shuffle(pairs)
    gold, bad = _positives(judgements, draw), _negatives(judgements, {*avoid, *pairs}, draw)
    drafts = []
    for start in range(0, len(pairs), pooled):
        chosen = pairs[start : start + pooled]
        items = [TaskPair(*pair) for pair in chosen]
        items += [TaskPair(*pair, "gold_pos") for pair in _distinct(gold, positives, chosen)]
        items += [TaskPair(*pair, "gold_neg") for pair in _distinct(bad, negatives, chosen)]
        draw.shuffle(items)
        drafts.append(Draft(tuple(items), "pairs", seed, reasons))
    return drafts


def make_caption_tasks(
    pool: Iterable[Key],
    judgements: Judgements,
    *,
    avoid: Iterable[Key] = (),
    controls: Judgements | None = None,
    images: int = IMAGES,
    captions: int = CAPTIONS,
    seed: int = 0,
) -> list[Draft]:
    """Tasks of the Flickr8k form: six images with ten captions each, one of them a control image.

    If the pool does not fill the block of an image, random captions are added, which are judged like the others (this
    is how the paper could test its filter). An image with more than ten captions is in several tasks. The control image
    has one to three of its own captions among captions of other images.

    Args:
        pool: The pairs to judge, (image, caption).
        judgements: The original pairs, image -> text.
        avoid: Pairs in some system's top 25, which are never used as known negatives.
        controls: Original pairs, image -> text, to choose control images from: those of the development set in the
            paper. `judgements` by default.
        images: Images per task, including the control image.
        captions: Captions per image.
        seed: Seed of the random tasks.
    """
    if images < 2 or captions < 2:
        raise LimnerError(
            f"{images} images with {captions} captions: expected at least 2 of both, including one control image"
        )
    draw = random.Random(seed)
    pool_pairs = dict.fromkeys(pool)
    blocks = _blocks(pool_pairs, judgements, captions, draw)
    draw.shuffle(blocks)
    source = judgements if controls is None else controls
    able = [i for i, count in zip(source.queries, source.counts.tolist(), strict=True) if count]
    if len(able) < (1 if controls is not None else images):
        raise LimnerError(f"{len(able)} images with their own captions to use as controls: expected more")
    golden = _forever(able, draw)
    drafts = []
    for chosen in _of_different_images(blocks, images - 1):
        group_images = {block[0].image for block in chosen}
        control = _control(_free(golden, group_images), source, {*avoid, *pool_pairs}, captions, draw)
        task_blocks = [*chosen, control]
        draw.shuffle(task_blocks)
        drafts.append(Draft(tuple(item for block in task_blocks for item in block), "captions", seed))
    return drafts


def _of_different_images(blocks: Sequence[list[TaskPair]], number: int) -> list[list[list[TaskPair]]]:
    """Groups of so many blocks; an image with several blocks is at most once in a group."""
    full: list[list[list[TaskPair]]] = []
    open_: list[list[list[TaskPair]]] = []
    for block in blocks:
        group = next((each for each in open_ if all(used[0].image != block[0].image for used in each)), None)
        if group is None:
            open_.append(group := [])
        group.append(block)
        if len(group) == number:
            full.append(group)
            open_ = [each for each in open_ if each is not group]
    return full + open_


def _free(golden: Iterator[str], used: set[str]) -> str:
    """The next control image that is not in the task."""
    for _ in range(_TRIES):
        image = next(golden)
        if image not in used:
            return image
    raise LimnerError("every possible control image is already in the task: give other controls")


def _blocks(pairs: Iterable[Key], judgements: Judgements, captions: int, draw: random.Random) -> list[list[TaskPair]]:
    """Each image's captions in blocks of ten, filled up with random captions, each used once per image."""
    by_image: dict[str, list[str]] = {}
    for image, caption in pairs:
        by_image.setdefault(image, []).append(caption)
    matched_captions = [judgements.candidates[column] for column in sorted(set(judgements.relevant.columns.tolist()))]
    blocks = []
    for image, image_captions in by_image.items():
        draw.shuffle(image_captions)
        n_missing = -len(image_captions) % captions
        drawn = draw.sample(matched_captions, min(len(matched_captions), len(image_captions) + captions))
        fill = [caption for caption in drawn if caption not in image_captions][:n_missing]
        items = [TaskPair(image, caption) for caption in [*image_captions, *fill]]
        draw.shuffle(items)
        blocks += [items[start : start + captions] for start in range(0, len(items), captions)]
    return blocks


def _control(image: str, judgements: Judgements, avoid: set[Key], captions: int, draw: random.Random) -> list[TaskPair]:
    positives = judgements.relevant_to(image)
    right = draw.sample(positives, min(len(positives), draw.randint(1, 3)))
    strangers = [c for c in judgements.candidates if c not in set(positives) and (image, c) not in avoid]
    wrong = draw.sample(strangers, min(len(strangers), captions - len(right)))
    items = [TaskPair(image, c, "gold_pos") for c in right] + [TaskPair(image, c, "gold_neg") for c in wrong]
    draw.shuffle(items)
    return items


def _positives(judgements: Judgements, draw: random.Random) -> Iterator[Key]:
    pairs = [(image, caption) for image, caption, _ in judgements.relevant]
    if not pairs:
        raise LimnerError("no known positive: expected original pairs with a grade above 0")
    return _forever(pairs, draw)


def _negatives(judgements: Judgements, avoid: set[Key], draw: random.Random) -> Iterator[Key]:
    """Random pairs that are not known matches; refused if none can be found."""
    right = {(image, caption) for image, caption, _ in judgements.relevant}
    images, captions = list(judgements.queries), list(judgements.candidates)
    while True:
        for _ in range(_TRIES):
            pair = draw.choice(images), draw.choice(captions)
            if pair not in right and pair not in avoid:
                yield pair
                break
        else:
            raise LimnerError(
                f"no known negative in {_TRIES:,} draws: the systems' lists contain nearly every pair; pool "
                f"with a smaller -O keep, or create tasks with -O negatives=0"
            )


def _forever(values: Sequence[T], draw: random.Random) -> Iterator[T]:
    """All values in random order, repeated forever with a new order each time."""
    while True:
        yield from draw.sample(values, len(values))


def _distinct(source: Iterator[Key], number: int, used: Sequence[Key]) -> list[Key]:
    """The next pairs that are not in the task yet; fewer if the task already contains all others."""
    chosen: list[Key] = []
    for _ in range(_TRIES if number else 0):
        pair = next(source)
        if pair not in used and pair not in chosen:
            chosen.append(pair)
        if len(chosen) == number:
            break
    return chosen


YES, NO = 4, 1


def crowd_form() -> StudyForm:
    """The question, the rules and their version, which is stored with every answer."""
    return read_form("captions")


def blocks(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """The captions of each image, in the order they are shown."""
    return [tuple(block) for _, block in groupby(items, key=lambda item: item.image)]


def submit_block(
    store: Store,
    annotator_id: int,
    block: Sequence[Item],
    ticked: Collection[int],
    *,
    key: str,
    milliseconds: int | None = None,
) -> bool:
    """Stores the answers to all captions of one image; returns True if they finish the task.

    Args:
        store: The store.
        annotator_id: The annotator.
        block: The captions of one image, from `blocks`.
        ticked: Ids (`Item.id`) of the captions that describe the image.
        key: Created by the client; the same when the block is sent again.
        milliseconds: Time spent on the whole block; it is divided equally among the captions.
    """
    strange = set(ticked) - {item.id for item in block}
    if strange:
        raise LimnerError(
            f"caption {min(strange)} does not belong to this image: expected some of the {len(block)} shown"
        )
    took = None if milliseconds is None else milliseconds // max(1, len(block))
    finished, guideline = False, crowd_form().guideline
    for item in block:
        grade = YES if item.id in ticked else NO
        try:
            saved = submit(
                store,
                annotator_id,
                item.id,
                key=f"{key}-{item.id}",
                grade=grade,
                milliseconds=took,
                guideline=guideline,
            )
        except AlreadyFull:  # someone else gave the last answer in the meantime
            continue
        finished = finished or saved.finished
    return finished
