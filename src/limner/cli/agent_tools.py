"""The tools of `limner serve --mcp`: commands with --json that only read.

An argument never becomes an option, and a name never becomes code: `module:thing` needs --trust.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any

from limner.cli.agent_server import Tool
from limner.core.errors import LimnerError

INSTRUCTIONS = (
    "limner measures how well a model matches images with texts, with confidence intervals. 'describe' says what a "
    "data set has, 'evaluate' measures models or runs, 'compare' tells whether saved reports differ significantly, and "
    "'search' finds images or texts in an index. All tools read and write nothing but caches. Values are shares of 1 "
    "unless they are ranks; a difference is significant where its adjusted p-value is below 0.05."
)
_COLLECTION = {
    "type": "string",
    "description": (
        "A data set: a path (captions.csv, a folder), NAME:DIR (flickr8k:DIR), 'scenes' (built in), or a file of qrels "
        "for runs."
    ),
}
_WORDS = {"type": "array", "items": {"type": "string"}}


def _object(*required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


SPLIT = {"type": "string", "description": "Only this split, such as test."}
LOADING = {**_WORDS, "description": "Options of the data set's loader, as NAME=VALUE."}
DESCRIBE = _object("collection", collection=_COLLECTION, split=SPLIT, options=LOADING)
EVALUATE = _object(
    "collection",
    collection=_COLLECTION,
    models={**_WORDS, "description": "Models: a folder, or a name of 'limner list systems' or 'encoders'."},
    runs={**_WORDS, "description": "Or files of a run: TREC, JSON, or MTEB's predictions."},
    measures={"type": "string", "description": "Such as 'R@1 R@10 MedR nDCG@10'; the usual ones by default."},
    split=SPLIT,
    options=LOADING,
)
COMPARE = _object(
    "reports", reports={**_WORDS, "description": "Two or more reports that 'limner evaluate -o FILE.json' wrote."}
)
SEARCH = _object(
    "index",
    "text",
    index={"type": "string", "description": "An index that 'limner index' built."},
    text={"type": "string", "description": "The words to search for."},
    k={"type": "integer", "minimum": 1, "maximum": 1000, "description": "Number of hits; 10 by default."},
    where={**_WORDS, "description": "Only items whose field has a value: FIELD=VALUE."},
)


def agent_tools(*, trust: bool = False) -> list[Tool]:
    """The tools.

    Args:
        trust: Whether names may be code, `module:thing`.
    """
    about = {
        "describe": "Count the images, texts, judgements and splits of a data set, and list its warnings.",
        "evaluate": "Measure models, or a run, on a data set: recall and other measures with confidence intervals.",
        "compare": "Compare saved reports query by query: differences with intervals and p-values.",
        "search": "Find the images or texts of an index that match a text best.",
    }
    calls = {"describe": (DESCRIBE, _describe), "evaluate": (EVALUATE, _evaluate), "compare": (COMPARE, _compare)}
    calls["search"] = (SEARCH, _search)
    return [Tool(name, about[name], schema, partial(call, trust)) for name, (schema, call) in calls.items()]


def _describe(trust: bool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return run_command("data", "describe", *_collection(arguments, trust))


def _evaluate(trust: bool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    models, measures = arguments.get("models", ()), arguments.get("measures", "")
    if not trust:
        for name in (*models, measures):
            refuse_code(name)
    words = [f"--model={each}" for each in models] + [f"--run={each}" for each in arguments.get("runs", ())]
    words += [f"--measures={measures}"] if measures else []
    return run_command("evaluate", *_collection(arguments, trust), *words)


def _compare(_: bool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return run_command("compare", *map(_positional, arguments["reports"]))


def _search(_: bool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    filters = [f"--where={each}" for each in arguments.get("where", ())]
    return run_command(
        "search", f"-k{arguments.get('k', 10)}", *filters, _positional(arguments["index"]), "--", arguments["text"]
    )


def _collection(arguments: Mapping[str, Any], trust: bool) -> list[str]:
    from limner.datasets import refuse_foreign

    collection, options = _positional(arguments["collection"]), arguments.get("options", ())
    if not trust and not collection.startswith("qrels:") and not Path(collection).exists():
        refuse_foreign(collection, {})
    split = [f"--split={arguments['split']}"] if "split" in arguments else []
    return [collection, *(word for each in options for word in ("-O", each)), *split]


def _positional(word: str) -> str:
    if word.startswith("-"):
        raise LimnerError(f"{word!r} begins with a dash: expected a name or a path")
    return word


def refuse_code(name: str) -> None:
    """Refuses a name that would import code.

    >>> refuse_code("clip(model=DIR)"), refuse_code("hf-hub:org/model")
    (None, None)
    >>> refuse_code("os:system")
    Traceback (most recent call last):
    limner.core.errors.LimnerError: 'os:system' names code: start the server with --trust to allow it
    """
    if ":" in name.removeprefix("hf-hub:").removeprefix("hf:") and not Path(name).exists():
        raise LimnerError(f"{name!r} names code: start the server with --trust to allow it")


def run_command(*words: str) -> Mapping[str, Any]:
    """What a command prints with --json; raises its error."""
    from limner.cli.shell import app

    printed = io.StringIO()
    at = 2 if words[0] == "data" else 1
    with redirect_stdout(printed), suppress(SystemExit):  # with --json an error is printed too
        app([*words[:at], "--json", *words[at:]])
    values = json.loads(printed.getvalue())
    if set(values) == {"error"}:
        raise LimnerError(values["error"]["message"])
    result: Mapping[str, Any] = values
    return result
