"""The registry: names, "module:thing", what is said when neither fits, options and lists."""

import dataclasses
import json
import sys
from collections.abc import Callable, Collection
from typing import Any

import pytest

from limner import LimnerError
from limner.core.errors import UnknownName, Untrusted
from limner.core.options import typed
from limner.core.registry import Registry, checked, options_of, takes


@pytest.fixture
def registry() -> Registry[Callable[..., Any]]:
    return Registry("thing", {"reader": "json:loads"})


def test_by_name_and_by_place(registry):
    assert registry.find("reader") is json.loads and registry["reader"] is json.loads
    assert registry.find("json:dumps") is json.dumps


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raeder", "did you mean 'reader'"),
        ("nowhere_at_all:x", "no module 'nowhere_at_all'"),
        ("json:nothing", "has no 'nothing'"),
        ("..:x", "not a module name"),
        (3, "is int: expected a name"),
    ],
)
def test_refused(registry, name, message):
    with pytest.raises(LimnerError, match=message):
        registry.find(name)


def test_one_of_your_own_by_name(registry):
    @registry.register("mine")
    def say(text: str, *, loud: bool = False) -> str:
        """Says it.

        At length.
        """
        return text.upper() if loud else text

    assert registry.find("mine", trusted=False) is say, "what a program registered, a file may name"
    assert registry.name_of(say) == "mine" and registry.name_of(json.loads) == "reader"
    assert registry.name_of(json.dump) == "json:dump"
    assert registry.finds(say) and "mine" in registry and list(registry) == ["reader", "mine"]
    assert registry.summaries()["mine"] == "Says it."
    for name in ("mine", "reader"):
        with pytest.raises(LimnerError, match="already registered"):
            registry.register(name)
    with pytest.raises(LimnerError, match="without a colon"):
        registry.register("a:b")


def test_what_is_inside_a_function_is_not_found_again(registry):
    def hidden() -> None: ...

    assert not registry.finds(hidden)


def test_a_file_of_the_current_folder(registry, tmp_path, monkeypatch):
    (tmp_path / "shouting.py").write_text("def shout(text): return text.upper()\n")
    (tmp_path / "json.py").write_text("raise RuntimeError('the folder must not come before what is installed')\n")
    (tmp_path / "shouting_broken.py").write_text("def shout(:\n")
    (tmp_path / "shouting_lacking.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    before = list(sys.path)
    assert registry.find("shouting:shout")("a") == "A"
    assert registry.find("reader") is json.loads
    with pytest.raises(LimnerError, match="not valid Python"):
        registry.find("shouting_broken:shout")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        registry.find("shouting_lacking:shout")
    with pytest.raises(Untrusted):
        registry.find("shouting:shout", trusted=False)
    assert sys.path == before


@dataclasses.dataclass(kw_only=True)
class Training:
    epochs: int = 30
    rate: float | None = None


@dataclasses.dataclass(kw_only=True)
class Shape(Training):
    joint: int = 8
    pooling: "NotThere" = "last"  # noqa: F821  # a name that only a type checker knows


@takes(Training, epochs=10)
def train(collection: object, *, dev: "Unknown | None" = None, **options: Any) -> None: ...  # noqa: F821


@takes(f"{__name__}:train")
def train_there(collection: object, **options: Any) -> None: ...


def test_settings_are_the_signature():
    for function in (train, train_there):
        options = {o.name: (o.type, o.default) for o in options_of(function, filled=1)}
        assert options == {"epochs": ("int", 10), "rate": ("float or nothing", None)}
        assert checked(function, {"rate": 1}, what="'train'", filled=1) == {"rate": 1.0}
        with pytest.raises(UnknownName, match="unknown option 'epoch' of 'train': did you mean 'epochs'"):
            checked(function, {"epoch": 3}, what="'train'", filled=1)
        with pytest.raises(LimnerError, match="epochs='x' is str: expected int"):
            checked(function, {"epochs": "x"}, what="'train'", filled=1)


def test_one_annotation_that_cannot_be_read_leaves_the_others():
    with pytest.raises(LimnerError, match="joint='x' is str: expected int"):
        checked(Shape, {"joint": "x", "pooling": "any"}, what="'shape'")
    assert [o.name for o in options_of(Shape)] == ["epochs", "rate", "joint"]


def test_what_must_be_given(registry):
    @registry.register("needy")
    def needy(*, model: str, seed: int = 0) -> str:
        return f"{model} {seed}"

    with pytest.raises(LimnerError, match="thing 'needy' needs model"):
        registry.make("needy", {"seed": 1})
    assert registry.make("needy", {"model": "m"}) == "m 0"
    described = {o.name: o.described() for o in registry.about("needy").options}
    assert described == {"model": {"type": "str", "required": True}, "seed": {"type": "int", "default": 0}}


def registries() -> list[Registry[Any]]:
    from limner.datasets import DATASETS
    from limner.encoders import ENCODERS
    from limner.match import CORRECTIONS, FUSIONS, SCORERS
    from limner.systems import KINDS, LOSSES, SYSTEMS

    return [CORRECTIONS, DATASETS, ENCODERS, FUSIONS, KINDS, LOSSES, SCORERS, SYSTEMS]


def test_every_listed_object_is_there_and_documented():
    for registry in registries():
        summaries = registry.summaries()
        assert list(registry) == list(registry.homes) and len(registry) > 2
        for name in registry:
            assert registry.name_of(registry[name]) in registry, (registry.what, name)
            assert summaries[name], (registry.what, name)


def test_a_name_with_options_is_understood(registry):
    assert registry.parsed("reader") == ("reader", {})
    assert registry.parsed("reader(deep=3, loud=yes)", {"deep": 4}) == ("reader", {"deep": 4, "loud": "yes"})
    assert registry.parsed("json:loads(k=1)") == ("json:loads", {"k": 1})
    assert (
        registry.names("reader(deep=3)") and not registry.names("writer(deep=3)") and not registry.names("json:loads")
    )
    for text, message in (("reader(deep", "expected a name, or a name with options"), (3, "is int: expected a name")):
        with pytest.raises(LimnerError, match=message):
            registry.parsed(text)


def test_a_group_of_numbers_is_written_as_a_list():
    """`-O captions=[2]` of Flickr8k."""

    def load(path: str, *, captions: Collection[int] | None = None) -> None: ...

    assert [option.name for option in options_of(load, filled=1)] == ["captions"]
    assert typed("captions", [2], Collection[int] | None) == [2]
    assert typed("captions", {2}, Collection[int] | None) == {2}
    for wrong in (2, "two"):
        with pytest.raises(LimnerError, match=rf"captions={wrong!r} is \w+: expected list or nothing"):
            typed("captions", wrong, Collection[int] | None)
