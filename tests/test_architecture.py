"""The structure of the package: few wings at its root, imports that go one way, no circle."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import architecture  # noqa: E402
import walks  # noqa: E402

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def modules():
    return architecture.modules()


@pytest.fixture(scope="module")
def facts(modules):
    return architecture.facts(modules)


def test_the_root_shows_wings_and_no_loose_modules(facts):
    assert facts["at the root"] <= 17
    assert facts["loose modules at the root"] == []


def test_there_is_no_circle_imports_inside_functions_counted(modules):
    assert architecture.circles(modules) == []


def test_every_wing_imports_from_below_only(modules):
    floors = architecture.contract()
    assert architecture.upward(modules, floors) == []
    assert {module.wing for module in modules.values()} - {""} == {wing for floor in floors for wing in floor}


def test_the_contract_of_floors_ignores_no_import():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    floors = text[text.index('type = "layers"') :].partition("[[tool")[0]
    assert "ignore_imports" not in floors


def test_no_function_is_long_and_no_class_name_is_taken_twice(facts):
    assert facts["long functions"] == [] and facts["long files"] == []
    assert facts["repeated class names"] == {}


def test_what_the_script_sees(tmp_path):
    """A circle that opens only inside a function, a name that a package hands on, and an import that goes up."""
    for name, text in {
        "house/__init__.py": "",
        "house/low/__init__.py": "from house.low.a import thing\n",
        "house/low/a.py": "def thing():\n    from house.low.b import other\n",
        "house/low/b.py": "from house.low import thing\ndef other(): ...\n",
        "house/low/c.py": "from house.high import top\n",
        "house/high/__init__.py": "from house.high.top import top\nfrom house.low import thing\n",
        "house/high/top.py": "def top(): ...\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    modules = architecture.modules(tmp_path, "house")
    assert architecture.circles(modules) == [["house.low.a", "house.low.b"]]
    assert modules["house.high"].imports == {"house.high.top", "house.low.a"}
    assert architecture.upward(modules, [["high"], ["low"]]) == ["house.low.c -> house.high.top"]


def test_lines_that_stand_twice_are_counted(tmp_path):
    lines = "\n".join(f"    a{n} = {n}" for n in range(architecture.RUN))
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / "__init__.py").write_text('"""Same words.\n\nSame words.\n"""\n')
    for name in ("one", "other"):
        (tmp_path / "house" / f"{name}.py").write_text(f"def {name}():\n{lines}\n\n    # the end\n")
    assert architecture.repeated(architecture.modules(tmp_path, "house")) == 2 * architecture.RUN


def test_a_walk_names_the_files_that_a_value_passes():
    walk = walks.measured("embedding", ROOT / "src")
    assert walk["at the root"] == ["core", "match", "scores"]
    assert {"core/embeddings.py", "scores/corrected.py", "match/corrections.py"} <= set(walk["files"])
    assert "scores/base.py -> core/ranking.py" in walk["hops"]


def test_the_page_shows_the_layers_of_the_contract():
    picture = PAGE[PAGE.index("```text") :].partition("\n```\n")[0]
    layers = [line.split()[0] for line in picture.splitlines()[1:]]
    assert layers == [wing for floor in architecture.contract() for wing in floor if wing != "__main__"]


def test_every_module_that_the_page_names_exists(modules):
    wings = "|".join(sorted({module.wing for module in modules.values()} - {""}))
    named = re.findall(rf"`(?:limner\.)?((?:{wings})(?:\.[a-z_]+)+)`", PAGE)
    assert len(named) > 20
    for name in named:
        owner, _, attribute = f"limner.{name}".rpartition(".")
        assert f"limner.{name}" in modules or attribute in modules[owner].path.read_text(encoding="utf-8"), name


def test_the_limits_of_the_page_hold(facts):
    limits = re.findall(r"^\| ([A-Za-z ]+?)(?: \(over .*\))? \| (\d+) \|$", PAGE, flags=re.MULTILINE)
    assert {"circles", "modules", "lines", "lines with Any", "public names"} <= {name for name, _ in limits}
    for name, limit in limits:
        value = facts[name]
        count = (
            sum(value.values()) if name == "public names" else len(value) if isinstance(value, list | dict) else value
        )
        assert count <= int(limit), name
