"""-O NAME=VALUE on the command line: an option of the model, correction, scorer or data set that is named before it.

`--model clip -O model=DIR` becomes `--model clip(model=DIR)`, and `--model NAME --revision V` becomes `--model
NAME(revision=V)`. Options of the data set stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from limner.core.registry import Registry

REGISTRIES = {
    "--model": ("limner.systems:SYSTEMS", "limner.encoders:ENCODERS"),
    "--correct": ("limner.match:CORRECTIONS",),
    "--scorer": ("limner.match:SCORERS",),
    "SYSTEM": ("limner.systems:SYSTEMS",),
}
"""Options and arguments that name a thing with options: where the things are."""
REVISION = "--revision"
"""The revision of the model on the hub that is named before it: in every command with a --model."""
FURTHER = {"--correct": ("tune",), "--estimate": ("mode",)}
"""Options that the command line adds."""
COLLECTIONS = ("COLLECTION", "ITEMS")
TASK_OPTIONS: dict[str, tuple[str, ...]] = {
    "composed": ("images", "pool", "train_on", "weight", "queries", "seed"),
    "languages": ("field",),
    "text-only": ("query", "corpus", "summariser", "regions", "image_data"),
    "per-image": (),
    "captions": ("scorer",),
    "caption-metrics": ("scorer", "images", "own", "coefficient", "aggregation"),
}
"""The tasks of evaluate, TASK:COLLECTION, and what -O takes for each besides options of the loader. composed: the
folder of images, the list of candidates, what a system is trained on, the weight of the words in the sum; of scenes,
how many queries and their seed. languages: the field of the texts that names their language. text-only: which
caption is the query, from 0, or 'each'; how an image is represented (mean of vectors, joined captions, summary) and by
which summariser; files of Visual Genome with descriptions of regions, and with the COCO ids of its images. captions: a
pair scorer. caption-metrics: that, the folder of the images, what is done with an image's own captions, and the rank
correlation and combination of ratings by which metrics are compared."""
WITHOUT_LOADER = ("composed", "per-image", "caption-metrics")
"""Tasks of something other than a collection."""
COMMAND_OPTIONS = {
    "add": ("features", "min_relevant", "max_relevant", "ties", "keywords"),
    "audit": ("min_side", "check_images"),
    "compare": ("groups", "unit"),
    "convert": ("translator",),
    "describe": ("check_images",),
    "encode": ("features",),
    "evaluate": ("groups", "features", "bank"),
    "failures": ("features", "informed"),
    "index": ("features", "bank", "similarity"),
    "judge": (
        *("url", "model", "key_from", "name", "prompt", "logprobs", "swap", "concurrency", "together", "per_minute"),
        *("price", "output_price", "budget", "errors", "level"),
    ),
    "map": ("features", "failures"),
    "plan": ("seconds",),
    "pool": ("features", "keep", "min_bleu", "strategy", "retrain"),
    "probe": ("images", "corpus", "train_on", "cases", "seed"),
    "report": ("figure", "width", "dataset", "task", "measure", "view"),
    "rerank": ("features", "keep_rest", "weight"),
    "search": ("features", "bank", "version", "one_right"),
    "serve": ("features",),
    "slices": ("min_size", "control"),
    "uncertainty": ("bins",),
}
"""What -O takes in a command, by its name, beside the options of what is named on its line. Those of a probe: the
folder of the images; a COLLECTION whose captions train the language model; one that a system is trained on; of scenes,
how many cases and their seed."""


@dataclass
class Named:
    """Something that the command line names, and where.

    Args:
        kind: The option, or the metavar of the argument.
        at: The index of the word with the name.
        name: The name.
        options: Its options, as NAME=VALUE.
    """

    kind: str
    at: int
    name: str
    options: list[str] = field(default_factory=list)

    def option_names(self) -> list[str]:
        """The options of a registered thing; none if that is not known."""
        try:
            return [name for place in REGISTRIES.get(self.kind, ()) for name in _entry_options(place, self.name)]
        except LimnerError:
            return []

    def takes(self, option: str) -> bool:
        """Whether it has an option of this name; True if that is not known."""
        if option in FURTHER.get(self.kind, ()):
            return True
        try:
            if self.kind in COLLECTIONS:
                return _loader_takes(self.name, option)
            return any(option in _entry_options(place, self.name) for place in REGISTRIES.get(self.kind, ()))
        except LimnerError:
            return True


def attached(words: list[str], command: Any) -> list[str]:
    """The words of a command line, each -O of a model, correction or scorer in parentheses behind its name."""
    by_name = {name: param for param in command.params for name in getattr(param, "opts", ())}
    arguments = [param.metavar for param in command.params if param.param_type_name == "argument"]
    rewritten: list[str] = []
    named: list[Named] = []
    at = 0
    while at < len(words):
        word, at = words[at], at + 1
        if word == "--":  # what follows are arguments, whatever they begin with
            return _named_with_options([*rewritten, *words[at - 1 :]], named)
        option, equals, value = _option_and_value(word)
        if option == REVISION and REVISION not in by_name and "--model" in by_name:
            if not equals:
                value, at = " ".join(words[at : at + 1]), at + 1
            _model_before(named).options.append(f"revision={value}")
            continue
        if option not in by_name:
            rewritten.append(word)
            if not word.startswith("-") and arguments:
                named.append(Named(arguments.pop(0) or "", len(rewritten) - 1, word))
            continue
        param = by_name[option]
        if getattr(param, "is_flag", False):
            rewritten.append(word)
            continue
        if not equals:
            if at == len(words):
                return words  # the parser says what is missing
            value, at = words[at], at + 1
        if param.name == "option":
            owner = _owner(named, value.partition("=")[0].strip(), COMMAND_OPTIONS.get(command.name, ()))
            if owner is not None and owner.kind not in COLLECTIONS:
                owner.options.append(value)
                continue
        rewritten += [option, value]
        if option in REGISTRIES or option in FURTHER:
            named.append(Named(option, len(rewritten) - 1, value))
    return _named_with_options(rewritten, named)


def _model_before(named: list[Named]) -> Named:
    """The model that a --revision belongs to."""
    for each in reversed(named):
        if each.kind == "--model":
            return each
    raise LimnerError(f"{REVISION} without a --model before it: expected --model NAME {REVISION} BRANCH, TAG or COMMIT")


def _named_with_options(words: list[str], named: list[Named]) -> list[str]:
    for each in named:
        if each.options:
            words[each.at] = _with_options(each.name, each.options)
    return words


def _owner(named: list[Named], option: str, of_command: tuple[str, ...]) -> Named | None:
    """What an option belongs to: the nearest thing before it that has it, or one of a similar name."""
    owners = [each for each in reversed(named) if each.kind in (*REGISTRIES, *FURTHER, *COLLECTIONS)]
    takers = [each for each in owners if each.takes(option)]
    if option in of_command and not takers:
        return None
    similar = [each for each in owners if get_close_matches(option, each.option_names())]
    return next(iter(takers or similar or owners), None)


def _option_and_value(word: str) -> tuple[str, bool, str]:
    """A word of the command line as an option, whether its value is joined to it, and the value.

    >>> _option_and_value("--model=clip"), _option_and_value("-Ok=10"), _option_and_value("--model")
    (('--model', True, 'clip'), ('-O', True, 'k=10'), ('--model', False, ''))
    """
    if word.startswith("--"):
        option, equals, value = word.partition("=")
        return option, bool(equals), value
    if word.startswith("-") and len(word) > 2:
        return word[:2], True, word[2:]
    return word, False, ""


def _with_options(name: str, options: list[str]) -> str:
    """A name with options in parentheses.

    >>> _with_options("clip(model=DIR)", ["device=cuda"])
    'clip(model=DIR, device=cuda)'
    """
    written = ", ".join(options)
    return f"{name.removesuffix(')')}, {written})" if name.endswith(")") else f"{name}({written})"


def task_of(collection: str) -> tuple[str, str]:
    """The task and what is evaluated; no task for a collection alone.

    >>> task_of("languages:xtd10:DIR"), task_of("flickr8k:DIR")
    (('languages', 'xtd10:DIR'), ('', 'flickr8k:DIR'))
    """
    task, colon, spec = collection.partition(":")
    return (task, spec) if colon and task in TASK_OPTIONS else ("", collection)


def _loader_takes(collection: str, option: str) -> bool:
    from limner.datasets import takes_option

    task, spec = task_of(collection)
    if option in TASK_OPTIONS.get(task, ()):
        return True
    return task not in WITHOUT_LOADER and takes_option(spec, option)


def _entry_options(place: str, text: str) -> list[str]:
    from limner.core.registry import Registry

    registry: Registry[Any] = Registry[Any]("list", {}).find(place)
    name = text.partition("(")[0].strip()
    if name not in registry and (":" not in name or Path(name).exists()):
        return []
    return [each.name for each in registry.about(name).options]
