"""A served collection: its parts, and what tells its data from other data."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from limner.core.errors import LimnerError, UnknownName
from limner.systems.hold_out import Division, outside, part_of
from limner.systems.system_spec import SystemSpec, divided
from limner.web.kept_systems import data_key
from limner.web.search_request import ALL, HELD_OUT

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.web.jobs import Job


@dataclass(frozen=True, eq=False)
class Loaded:
    """A collection, divided so that training items are never evaluated.

    Args:
        whole: The collection.
        systems: The systems; all are compared on the same part.
    """

    whole: Collection
    systems: Sequence[SystemSpec] = ()
    _parts: dict[str, Collection] = field(default_factory=dict, repr=False)
    _keys: list[str | None] = field(default_factory=list, repr=False)
    _reading: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @cached_property
    def parts(self) -> Division:
        """Divided by the rule of `limner.systems.hold_out`; refused if there are too few images to train on."""
        return divided(self.whole, self.systems)

    @cached_property
    def evaluated(self) -> Collection:
        """The items to evaluate; pages without a system can show them too."""
        try:
            return self.parts.evaluated
        except LimnerError:
            if not any(system.is_trained_now for system in self.systems):
                raise
            return part_of(self.whole, None)

    @cached_property
    def training(self) -> Collection:
        """The other items: the training split, or the rest."""
        return outside(self.whole, self.evaluated) if self.parts.training is None else self.parts.training

    @property
    def divided(self) -> bool:
        """Whether there are images outside the evaluated part."""
        return len(self.evaluated.images) < len(self.whole.images)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The number of images of every part that can be searched."""
        held_out_size = {HELD_OUT: len(self.evaluated.images)} if self.divided else {}
        splits = {name: len(ids) for name, ids in self.whole.splits.items()}
        return {ALL: len(self.whole.images), **held_out_size, **splits}

    def part(self, name: str) -> Collection:
        """A part, computed once: `ALL`, a split, or `HELD_OUT` (also "")."""
        if name in ("", HELD_OUT):
            return self.evaluated
        if name not in self.sizes:
            raise UnknownName("split", name[:80], self.sizes)
        if name not in self._parts:
            self._parts[name] = part_of(self.whole, name)
        return self._parts[name]

    def data_key(self, job: Job) -> str | None:
        """See `limner.web.kept_systems.data_key`; read once."""
        with self._reading:
            if not self._keys:
                with job.stage(f"reading the images of {self.whole.name}") as progress:
                    self._keys.append(data_key(self.whole, progress))
            return self._keys[0]
