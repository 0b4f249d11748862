"""Ways to spoil a file: bytes, numbers, words and JSON values changed at random, reproducibly from a number.

Damage to the bytes of a container is found by its checksum, so that archives, gzip streams and headers are opened,
spoiled inside and closed again.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from copy import deepcopy
from typing import Any

NUMBERS = [
    0,
    1,
    -1,
    2,
    7,
    127,
    128,
    255,
    256,
    32767,
    65535,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**63,
    2**64,
    10**30,
]
WORDS = [
    b"",
    b"nan",
    b"inf",
    b"-inf",
    b"1e400",
    b"-1",
    b"1" * 400,
    b"9" * 5000,
    b"null",
    b"true",
    b"\x00",
    b"\xff\xfe",
    b"\xe9",
    b"\xed\xa0\x80",
    b"\\ud800",
    b'"',
    b'""',
    b"\r",
    b"\n\n",
    b"\t\t",
    b"," * 50,
    b"[" * 200,
    b"{" * 200,
    b"../../x",
    b"/dev/zero",
    b"os:system",
    b"a" * 3000,
    b"\xe2\x80\xae",
    b"%s%n",
    b"0x10",
    b"1_000",
    b"\xf0\x9f\x98\x80",
    b":::",
]
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    2**31,
    2**63,
    10**40,
    -(10**400),
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    "a" * 2000,
    "1",
    "nan",
    [],
    {},
    [[]],
    [None],
    {"": 0},
    [1, "a", None],
    "os:system",
    "../x",
    "/dev/zero",
    "\x00",
    [0] * 1000,
    {"tensor": "x"},
    "limner.cli.demo_chapters:chapters",
]
Spoil = Callable[[random.Random, bytes], bytes]


# --- bytes ------------------------------------------------------------------------------------------------------


def _flip(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    data[at : at + 1] = bytes([rng.choice((0, 1, 9, 10, 32, 34, 44, 127, 128, 255, rng.randrange(256)))])


def _number(rng: random.Random, data: bytearray) -> None:
    """A number of 16, 32 or 64 bits, as lengths and offsets are written."""
    form = rng.choice(("<H", ">H", "<I", ">I", "<Q", ">Q"))
    size = struct.calcsize(form)
    at = rng.randrange(max(len(data) - size, 0) + 1)
    value = rng.choice([*NUMBERS, len(data), len(data) + 1]) % (1 << 8 * size)
    data[at : at + size] = struct.pack(form, value)


def _delete(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.choice((1, 1, 4, 16, 200))]


def _repeat(rng: random.Random, data: bytearray) -> None:
    at, size = rng.randrange(len(data)), rng.choice((1, 4, 16, 100, 1000))
    data[at:at] = data[at : at + size] * rng.choice((1, 1, 2, 20))


def _insert(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice([*WORDS, rng.randbytes(rng.choice((1, 4, 30)))])


def _cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def _digits(rng: random.Random, data: bytearray) -> None:
    matches = list(re.finditer(rb"-?\d+(?:\.\d+)?", data))
    if matches:
        chosen = rng.choice(matches)
        data[chosen.start() : chosen.end()] = rng.choice([str(rng.choice(NUMBERS)).encode(), rng.choice(WORDS)])


def _word(rng: random.Random, data: bytearray) -> None:
    matches = list(re.finditer(rb"[\w.#/-]+", data))
    if matches:
        chosen = rng.choice(matches)
        second = rng.choice(matches)
        data[chosen.start() : chosen.end()] = rng.choice(
            [rng.choice(WORDS), bytes(data[second.start() : second.end()])]
        )


def _lines(rng: random.Random, data: bytearray) -> None:
    lines = bytes(data).split(b"\n")
    at = rng.randrange(len(lines))
    lines[at:at] = rng.choice(([], [lines[at]] * 2, [b""], [rng.choice(lines)]))
    if rng.random() < 0.3:
        rng.shuffle(lines)
    data[:] = b"\n".join(lines)


_BYTES = (_flip, _flip, _overwrite, _number, _delete, _repeat, _insert, _cut)
_TEXT = (_flip, _overwrite, _delete, _repeat, _insert, _cut, _digits, _digits, _word, _word, _lines)


def _spoilt(rng: random.Random, data: bytes, ways: Any) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if changed:
            rng.choice(ways)(rng, changed)
    return bytes(changed[: 1 << 20])


def of_bytes(rng: random.Random, data: bytes) -> bytes:
    """A binary file."""
    return _spoilt(rng, data, _BYTES)


def of_text(rng: random.Random, data: bytes) -> bytes:
    """A text file."""
    return _spoilt(rng, data, _TEXT)


# --- structures -------------------------------------------------------------------------------------------------


def _nodes(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value, to the depth that real files have."""
    nodes, level = [], [value]
    while level:
        inside = []
        for node in level:
            keys: Any = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
            nodes += [(node, key) for key in keys]
            inside += [node[key] for key in keys]
        level = [child for child in inside if isinstance(child, (dict, list))][:2000]
    return nodes


def spoilt_value(rng: random.Random, value: Any) -> Any:
    """A JSON value with some of its parts replaced, removed, renamed or exchanged."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        nodes = _nodes(value)
        if not nodes:
            return deepcopy(rng.choice(VALUES))
        node, key = rng.choice(nodes)
        change = rng.randrange(10)
        if change == 0:
            del node[key]
        elif change == 1 and isinstance(node, dict):
            node[rng.choice(("", "x", "encoder", "\ud800"))] = node.pop(key)
        elif change == 2:
            second, name = rng.choice(nodes)
            node[key] = deepcopy(second[name])
        elif change == 3 and isinstance(node, list):
            node += [node[key]] * rng.choice((1, 50))
        else:
            node[key] = deepcopy(rng.choice(VALUES))
    return value


def of_json(rng: random.Random, data: bytes) -> bytes:
    """A JSON file: half of the time as text, half of the time as values."""
    if rng.random() < 0.4:
        return of_text(rng, data)
    spoilt = json.dumps(spoilt_value(rng, json.loads(data)), ensure_ascii=rng.random() < 0.8)
    return spoilt.encode("utf-8", "surrogatepass")


def of_json_lines(rng: random.Random, data: bytes) -> bytes:
    """Lines of JSON."""
    lines = data.splitlines()
    at = rng.randrange(len(lines))
    lines[at] = of_json(rng, lines[at])
    return b"\n".join(lines)


def of_safetensors(rng: random.Random, data: bytes) -> bytes:
    """A safetensors file: its bytes, or its header with the length put right again."""
    if rng.random() < 0.3:
        return of_bytes(rng, data)
    size = struct.unpack("<Q", data[:8])[0]
    head, body = data[8 : 8 + size], data[8 + size :]
    new_head = of_json(rng, head) if rng.random() < 0.7 else head
    new_body = body if rng.random() < 0.7 else of_bytes(rng, body) if body else b""
    return struct.pack("<Q", len(new_head)) + new_head + new_body


def of_zip(rng: random.Random, data: bytes) -> bytes:
    """An npz file: its bytes, or one of its arrays, packed again."""
    if rng.random() < 0.2:
        return of_bytes(rng, data)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new_archive:
        names = archive.namelist()
        chosen = rng.choice(names)
        for name in names:
            content = archive.read(name)
            spoilt = of_npy(rng, content) if name == chosen and rng.random() < 0.9 else content
            if name != chosen or rng.random() < 0.95:
                new_archive.writestr(
                    rng.choice(("x.npy", name)) if name == chosen and rng.random() < 0.05 else name, spoilt
                )
    return out.getvalue()


def of_npy(rng: random.Random, data: bytes) -> bytes:
    """An npy file: its header as text of the same length, or its bytes."""
    if rng.random() < 0.5 or data[:6] != b"\x93NUMPY":
        return of_bytes(rng, data)
    size = struct.unpack("<H", data[8:10])[0]
    head = of_text(rng, data[10 : 10 + size])[:size].ljust(size)
    return data[:10] + head + data[10 + size :]


def of_png(rng: random.Random, data: bytes) -> bytes:
    """A PNG: its bytes, or a chunk with its checksum put right again, the pixels unpacked and packed again."""
    if rng.random() < 0.2:
        return of_bytes(rng, data)
    chunks, at = [], 8
    while at + 12 <= len(data):
        size = struct.unpack(">I", data[at : at + 4])[0]
        chunks.append([data[at + 4 : at + 8], data[at + 8 : at + 8 + size]])
        at += 12 + size
    chosen = rng.choice(chunks)
    is_pixels = chosen[0] == b"IDAT" and rng.random() < 0.7
    inside = zlib.decompress(chosen[1]) if is_pixels else chosen[1]
    spoilt = of_bytes(rng, inside or b"x")
    chosen[1] = zlib.compress(spoilt) if is_pixels else spoilt
    if rng.random() < 0.2:
        chunks.insert(rng.randrange(len(chunks)), rng.choice(chunks))
    body = (struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return data[:8] + b"".join(body)


def of_gzip(rng: random.Random, data: bytes) -> bytes:
    """A gzipped text: its bytes, or its contents."""
    return of_bytes(rng, data) if rng.random() < 0.3 else gzip.compress(of_text(rng, gzip.decompress(data)), 1)
