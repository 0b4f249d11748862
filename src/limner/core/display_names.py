"""Short names of systems for tables, figures and pages; reports and files keep the whole name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from limner.core.errors import LimnerError
from limner.core.options import parsed_call

_WEIGHTS = ("model", "folder", "file")
"""The options that say which weights a model has."""
_SIDES = ("images", "texts")
"""The options of a system that name two encoders."""
_ENDINGS = re.compile(r"\.(npy|npz|safetensors|onnx|run|pt|pth|trec)$")
_PATH = re.compile(r"(hf-hub:)?(?P<plain>[\w.:/\\-]*[/\\][\w.:/\\-]*)(@[\w./-]+)?")
"""A path or a name on a hub; other texts with a slash, such as "CLIP ViT-B/32", are names as they are."""
_ROOTED = re.compile(r"(~|\.{0,2}|[A-Za-z]:)[/\\]")
_FILE = re.compile(r"[\w.-]+")
_DEEPEST = 20
"""Systems within systems; a name with more is shown as it is."""
_PATCHES = re.compile(r"\d+(@\d+(px)?)?")
"""What follows the slash in "ViT-L/14@336px"."""
_OPEN_CLIP = re.compile(r"(ViTamin|ViT|RN\d+|convnext|coca|EVA\d+|MobileCLIP)[-_\w.]*/[\w.-]+")


def display_name(name: str) -> str:
    """The short name of a system: the last part of its model, without options.

    >>> display_name("clip(model=/data/models/clip-vit-base-patch32, device=cpu)")
    'clip-vit-base-patch32'
    >>> display_name("openai/clip-vit-base-patch32@main + csls(k=5)"), display_name("mine.npz")
    ('clip-vit-base-patch32 + csls(k=5)', 'mine')
    >>> display_name("aligned(images=timm(model=timm/vit_small), texts=minilm)"), display_name("CLIP ViT-B/32")
    ('aligned(vit_small, minilm)', 'CLIP ViT-B/32')
    """
    system, plus, correction = name.partition(" + ")
    return _weights_name(_place(system)) + plus + correction


def display_names(names: Sequence[str]) -> tuple[str, ...]:
    """The short names of several systems, told apart: by an option that differs, by a folder, or by a number.

    >>> display_names(["clip(model=a/vit, device=cpu)", "clip(model=a/vit, device=cuda)", "runs/x/m", "runs/y/m"])
    ('vit (device=cpu)', 'vit (device=cuda)', 'x/m', 'y/m')
    >>> display_names(["towers", "towers"])
    ('towers (1)', 'towers (2)')
    """
    distinct = list(dict.fromkeys(names))
    short = dict(zip(distinct, _distinct(distinct), strict=True))
    repeats, numbers = Counter(names), dict.fromkeys(distinct, 0)
    shown = []
    for name in names:
        numbers[name] += 1
        shown.append(short[name] if repeats[name] == 1 else f"{short[name]} ({numbers[name]})")
    return tuple(shown)


def _distinct(names: Sequence[str]) -> list[str]:
    """Different short names for different names."""
    short = [display_name(name) for name in names]
    for shared in [each for each, count in Counter(short).items() if count > 1]:
        rows = [row for row, each in enumerate(short) if each == shared]
        same = [names[row] for row in rows]
        adapters = [f"{shared} ({_call(name)[0]})" for name in same]
        numbered = [f"{shared} ({number})" for number in range(1, len(same) + 1)]
        candidates = (_with_options(same, shared), _with_folders(same), adapters, numbered)
        chosen = next(each for each in candidates if len(set(each)) == len(same))
        for row, name in zip(rows, chosen, strict=True):
            short[row] = name
    return short


def _with_options(names: Sequence[str], shared: str) -> list[str]:
    """The options in which the systems differ, besides the folders of their weights."""
    options = [_call(name)[1] for name in names]
    keys = dict.fromkeys(key for each in options for key in each if key not in _WEIGHTS)
    differing = [key for key in keys if len({str(each.get(key)) for each in options}) > 1]
    written = [", ".join(f"{key}={each[key]}" for key in differing if key in each) for each in options]
    return [f"{shared} ({each})" if each else shared for each in written]


def _with_folders(names: Sequence[str]) -> list[str]:
    """The last parts of the folders, as many as it takes."""
    parts = [re.split(r"[/\\]", _place(name).rstrip("/\\")) for name in names]
    for depth in range(2, 1 + max(map(len, parts))):
        ends = ["/".join(each[-depth:]) for each in parts]
        if len(set(ends)) == len(ends):
            return ends
    return list(names[:1])


def _place(system: str) -> str:
    """What names the weights of a system; the system itself if nothing does."""
    if system.count("(") > _DEEPEST:
        return system
    head, options = _call(system)
    for option in _WEIGHTS:
        if isinstance(options.get(option), str):
            return str(options[option])
    sides = [str(options[side]) for side in _SIDES if isinstance(options.get(side), str)]
    if sides:
        return f"{head}({', '.join(map(display_name, sides))})"
    return head if _PATH.fullmatch(head) or _ROOTED.match(head) else system


def _call(system: str) -> tuple[str, dict[str, object]]:
    """A name and its options; no options for a text that is not a name with options."""
    try:
        return parsed_call(system, what="system")
    except LimnerError:
        return system, {}


def _weights_name(place: str) -> str:
    """The last part of a path or of a hub's name."""
    match = _PATH.fullmatch(place)
    if _OPEN_CLIP.fullmatch(place):
        return place
    if not (match or _ROOTED.match(place)):
        return _ENDINGS.sub("", place) if _FILE.fullmatch(place) else place
    last = re.split(r"[/\\]", (match["plain"] if match else place).rstrip("/\\"))[-1]
    return place if _PATCHES.fullmatch(last) else _ENDINGS.sub("", last)
