"""Reads WordNet's database files and packs the parts that limner needs into one small file.

The packed text has one synset per line, in the order of the files, as three fields separated by tabs: its words
(`word:sense:count`), the numbers of its hypernyms' lines, and its antonyms (`position of the word=antonym`); then the
irregular forms. Definitions and examples are left out. To rebuild it:

    python -m limner.language.wordnet.pack FOLDER src/limner/language/wordnet/wordnet30.xz

WordNet 3.0 Copyright 2006 by Princeton University. All rights reserved. Its licence, which allows this, is in
`WORDNET_LICENSE` next to this file.
"""

from __future__ import annotations

import lzma
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import overload

from limner.core.errors import LimnerError
from limner.core.paths import damage_told
from limner.language.wordnet.synset import Parts, Synset

PARTS = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
HYPERNYMS = ("@", "@i")
_FILE, _MEND = "wordnet30.xz", "install limner again"
Raw = tuple[str, list[str], list[tuple[str, str]], list[tuple[int, str, str, int]]]


def read(folder: Path) -> Parts:
    """Reads the database files of a folder."""
    missing = [f"{kind}.{part}" for part in PARTS.values() for kind in ("data", "index")]
    missing = [name for name in missing if not (folder / name).is_file()]
    if missing:
        raise LimnerError(
            f"{folder} has no {', '.join(missing)}: expected WordNet 3.x database files, as in Debian's wordnet-base "
            "(/usr/share/wordnet); without a folder limner uses the WordNet 3.0 that it ships"
        )
    return unpack("\n".join(lines(folder)))


def lines(folder: Path) -> Iterator[str]:
    """The packed text of a folder of database files."""
    senses, counts = _senses(folder), _counts(folder)
    raw = {(pos, entry[0][1:]): entry for pos in PARTS for entry in _entries(folder, pos)}
    number = {key: at for at, key in enumerate(raw)}
    for (pos, offset), (kind, words, parents, opposite) in raw.items():
        senses_of_words = [_word(word, pos, offset, senses, counts) for word in words]
        ups = [str(number[part, parent]) for parent, part in parents]
        against = [f"{at}={raw[part, target][1][to]}" for at, target, part, to in opposite if (part, target) in raw]
        yield f"{kind[0]}{' '.join(senses_of_words)}\t{' '.join(ups)}\t{' '.join(against)}"
    yield ""
    for pos, part in PARTS.items():
        file = folder / f"{part}.exc"
        for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
            form, *bases = line.split()
            yield f"{pos}{form} {' '.join(bases)}"


def _word(
    word: str,
    pos: str,
    offset: str,
    senses: dict[tuple[str, str], list[str]],
    counts: dict[tuple[str, str, int], int],
) -> str:
    sense = senses[word.lower(), pos].index(offset) + 1
    count = counts.get((word.lower(), pos, sense), 0)
    return f"{word}:{sense}" + (f":{count}" if count else "")


def _entries(folder: Path, pos: str) -> Iterator[Raw]:
    """Every synset of a data file: kind and offset, words, hypernyms (offset, part of speech), antonyms."""
    with (folder / f"data.{PARTS[pos]}").open(encoding="utf-8") as file:
        for line in file:
            if line.startswith(" "):
                continue
            cells = line.partition("|")[0].split()
            n_words = int(cells[3], 16)
            words = [word.partition("(")[0] for word in cells[4 : 4 + 2 * n_words : 2]]
            pointer_cells = cells[5 + 2 * n_words :]
            count = min(int(cells[4 + 2 * n_words]), len(pointer_cells) // 4)
            pointers = [pointer_cells[at : at + 4] for at in range(0, 4 * count, 4)]
            parents = [(p[1], _part(p[2])) for p in pointers if p[0] in HYPERNYMS]
            opposite = [
                (int(p[3][:2], 16) - 1, p[1], _part(p[2]), int(p[3][2:], 16) - 1) for p in pointers if p[0] == "!"
            ]
            yield cells[2] + cells[0], words, parents, opposite


def _part(letter: str) -> str:
    return "a" if letter == "s" else letter


def _senses(folder: Path) -> dict[tuple[str, str], list[str]]:
    """For every word, the offsets of its synsets in order."""
    offsets = {}
    for pos, part in PARTS.items():
        for line in (folder / f"index.{part}").read_text(encoding="utf-8").splitlines():
            if not line.startswith(" "):
                cells = line.split()
                offsets[cells[0], pos] = cells[-int(cells[2]) :]
    return offsets


def _counts(folder: Path) -> dict[tuple[str, str, int], int]:
    """How often each sense of a word is tagged in WordNet's texts."""
    file = folder / "cntlist.rev"
    counts: dict[tuple[str, str, int], int] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        key, sense, count = line.split()
        word, _, code = key.partition("%")
        counts[word.lower(), " nvara"[int(code[0])].replace(" ", "n"), int(sense)] = int(count)
    return counts


def opened(packed: bytes) -> Parts:
    """The graph of a packed file. Its synsets are parsed when they are asked for: most programs need a few hundred."""
    with damage_told(_FILE, what="packed WordNet", mend=_MEND):
        return _parts(lzma.decompress(packed).decode())


def unpack(text: str) -> Parts:
    """The graph of a packed text, parsed completely."""
    parts = _parts(text)
    return Parts(list(parts.synsets), dict(parts.senses), parts.exceptions)


def _parts(text: str) -> Parts:
    head, _, tail = text.partition("\n\n")
    packed = head.split("\n")
    irregular = {}
    for line in tail.splitlines():
        form, *bases = line[1:].split(" ")
        irregular[form, line[0]] = tuple(bases)
    return Parts(PackedSynsets(packed), PackedSenses(packed), irregular)


class PackedSynsets(Sequence[Synset]):
    """The synsets of packed lines, each parsed when it is first asked for."""

    def __init__(self, packed: Sequence[str]) -> None:
        self._lines = packed
        self._known: dict[int, Synset] = {}

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, at: int) -> Synset: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Synset]: ...

    def __getitem__(self, at: int | slice) -> Synset | Sequence[Synset]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        if at not in self._known:
            with damage_told(_FILE, what="packed WordNet", mend=_MEND):
                self._known[at] = _synset(self._lines[at])
        return self._known[at]

    def __iter__(self) -> Iterator[Synset]:
        with damage_told(_FILE, what="packed WordNet", mend=_MEND):
            yield from [_synset(line) for line in self._lines]


def _synset(line: str) -> Synset:
    words, parents, against = line[1:].split("\t")
    senses = [word.split(":") for word in words.split(" ")]
    return Synset(
        f"{senses[0][0].lower()}.{line[0]}.{int(senses[0][1]):02d}",
        tuple([word for word, *_ in senses]),
        tuple([int(count[1]) if len(count) > 1 else 0 for _, *count in senses]),
        tuple(map(int, parents.split())),
        tuple([(int(a), b) for a, _, b in (pair.partition("=") for pair in against.split())]),
    )


class PackedSenses(Mapping[tuple[str, str], tuple[int, ...]]):
    """Positions of the synsets of every (lower-case word, part of speech), the most common one first.

    Only the words are indexed at once; the senses of a word are put in order when they are asked for.
    """

    def __init__(self, packed: Sequence[str]) -> None:
        self._lines = packed
        self._index: dict[str, dict[str, list[int]]] = {pos: {} for pos in PARTS}
        for number, line in enumerate(packed):
            index = self._index[_part(line[:1])]
            for word in line[1:].partition("\t")[0].lower().split(" "):
                index.setdefault(word.partition(":")[0], []).append(number)

    def __getitem__(self, key: tuple[str, str]) -> tuple[int, ...]:
        word, pos = key
        numbers: dict[int, int] = {}
        for number in self._index[pos][word]:
            with damage_told(_FILE, what="packed WordNet", mend=_MEND):
                for form, sense, *_ in (each.split(":") for each in self._lines[number][1:].split("\t")[0].split(" ")):
                    if form.lower() == word:
                        numbers[int(sense)] = number
        return tuple(numbers[sense] for sense in sorted(numbers))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and key[0] in self._index.get(key[1], ())

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((word, pos) for pos, index in self._index.items() for word in index)

    def __len__(self) -> int:
        return sum(map(len, self._index.values()))


if __name__ == "__main__":
    packed = lzma.compress("\n".join(lines(Path(sys.argv[1]))).encode(), preset=9 | lzma.PRESET_EXTREME)
    Path(sys.argv[2]).write_bytes(packed)
    print(f"packed {len(packed):,} bytes")
