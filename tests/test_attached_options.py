"""-O NAME=VALUE belongs to what is named before it and has such an option."""

from __future__ import annotations

import pytest
import typer

from limner.cli import app
from limner.cli.attached_options import attached


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("evaluate scenes -O images=60 --model towers", "scenes -O images=60 --model towers"),
        ("evaluate scenes --model towers -O epochs=1", "scenes --model towers(epochs=1)"),
        ("evaluate scenes --model towers -O images=60", "scenes --model towers -O images=60"),
        ("evaluate scenes --model a/ -O images=60", "scenes --model a/ -O images=60"),
        ("evaluate scenes --model clip -O model=DIR --correct csls -O k=5 -O tune=dev",
         "scenes --model clip(model=DIR) --correct csls(k=5, tune=dev)"),
        ("evaluate scenes --estimate work.db -O mode=anytime", "scenes --estimate work.db(mode=anytime)"),
        ("evaluate composed:q.json -O images=DIR --model clip(model=M)",
         "composed:q.json -O images=DIR --model clip(model=M)"),
        ("evaluate scenes --model m/ -O features=f.npz", "scenes --model m/ -O features=f.npz"),
        ("evaluate scenes --model towers -O features=f.npz", "scenes --model towers(features=f.npz)"),
        ("search i dog --correct csls -O bank=b.txt -O k=5", "i dog --correct csls(k=5) -O bank=b.txt"),
        ("train towers scenes -O epochs=1 -O images=60", "towers(epochs=1) scenes -O images=60"),
        ("encode photos/ --model=clip -O model=DIR -o v.npy", "photos/ --model clip(model=DIR) -o v.npy"),
    ],
)  # fmt: skip
def test_an_option_belongs_to_the_nearest_thing_that_has_it(words, expected):
    name, *arguments = words.split()
    assert attached(arguments, typer.main.get_command(app).commands[name]) == _words(expected)


def _words(text: str) -> list[str]:
    """The words of a line; what is in parentheses is one word."""
    words: list[str] = []
    for word in text.split():
        if words and words[-1].count("(") > words[-1].count(")"):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words
