"""Writes the JSON schemas of what commands print with --json, from what they print in small runs.

    python tools/json_schemas.py

A schema names the type of every value that was seen and the names that were always there. Objects whose names are data,
such as splits by name, allow any name. A number may be null: what is not finite is printed so.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "src/limner/cli/schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
LEVELS = {
    1: "alpha changed classes expected forms grades hubs judged_pool judgements judges labels measures names numbers "
    "options parts pool published quality ratings scores shares sizes splits truth values waiting words",
    2: "counts shortcomings wrong",
    3: "ranks",
}
NAMED_BY_DATA = {name: level for level, names in LEVELS.items() for name in names.split()}
"""Objects whose names are data, and how many levels of names are."""
ANY = ("default",)
"""Values of any type."""
KINDS: tuple[tuple[type, str], ...] = (
    (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"),
)  # fmt: skip


@dataclass
class Shape:
    """What values looked like.

    Args:
        kinds: Their types.
        names: The values of objects, by name.
        always: Names that every object had.
        items: The values of lists.
    """

    kinds: set[str] = field(default_factory=set)
    names: dict[str, Shape] = field(default_factory=dict)
    always: set[str] | None = None
    items: Shape | None = None

    def add(self, value: object) -> None:
        """Adds a value."""
        self.kinds.add(next((kind for each, kind in KINDS if isinstance(value, each)), "null"))
        if isinstance(value, dict):
            self.always = set(value) if self.always is None else self.always & set(value)
            for name, each in value.items():
                self.names.setdefault(name, Shape()).add(each)
        if isinstance(value, list):
            self.items = self.items or Shape()
            for each in value:
                self.items.add(each)

    def schema(self, levels: int = 0) -> dict[str, Any]:
        """The schema of these values; any value where there was none yet.

        Args:
            levels: How many levels of the names of objects are data.
        """
        if self.kinds <= {"null"}:
            return {}
        kinds = self.kinds | ({"null"} if "number" in self.kinds else set())
        kinds -= {"integer"} if "number" in kinds else set()
        written: dict[str, Any] = {"type": sorted(kinds) if len(kinds) > 1 else next(iter(kinds))}
        if self.items is not None:
            written["items"] = self.items.schema()
        if "object" in kinds and levels:
            written["additionalProperties"] = _merged(self.names.values()).schema(levels - 1)
        elif "object" in kinds:
            written["properties"] = {
                each: {} if each in ANY else self.names[each].schema(NAMED_BY_DATA.get(each, 0))
                for each in sorted(self.names)
            }
            written["required"] = sorted(self.always or ())
        return written


def _merged(shapes: Iterable[Shape]) -> Shape:
    union = Shape()
    for shape in shapes:
        union.kinds |= shape.kinds
        if "object" in shape.kinds:
            names = shape.always or set()
            union.always = names if union.always is None else union.always & names
        for name, each in shape.names.items():
            union.names[name] = _merged([union.names[name], each]) if name in union.names else each
        if shape.items is not None:
            union.items = shape.items if union.items is None else _merged([union.items, shape.items])
    return union


def schemas(outputs: Iterable[tuple[str, Mapping[str, object]]]) -> dict[str, dict[str, Any]]:
    """The schema of every command, from what it printed: outputs that share half of their names are one form."""
    forms: dict[str, list[Shape]] = {}
    for command, values in outputs:
        of_command = forms.setdefault(command, [])
        form = next(
            (each for each in of_command if 2 * len(each.names.keys() & values.keys()) >= len({*each.names, *values})),
            None,
        )
        if form is None:
            form = Shape()
            of_command.append(form)
        form.add(values)
    return {
        command: {"$schema": DIALECT, "title": f"limner {command} --json", "anyOf": [each.schema() for each in shapes]}
        for command, shapes in forms.items()
    }


def main() -> None:
    """Writes a file for each command."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
    from json_samples import outputs

    with tempfile.TemporaryDirectory() as folder:
        by_command = schemas(outputs(Path(folder)))
    FOLDER.mkdir(exist_ok=True)
    for command, schema in by_command.items():
        text = json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        (FOLDER / f"{command.replace(' ', '-')}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
