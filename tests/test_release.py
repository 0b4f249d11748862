"""Citation, workflows, forms, container and conda recipe agree with the project."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from limner.cli import app

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
PAGES = [*(ROOT / f"{name}.md" for name in ("CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT"))]
PAGES += [ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md"]


def text(*path: str) -> str:
    return ROOT.joinpath(*path).read_text(encoding="utf-8")


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_citation_is_that_of_the_package():
    citation = yaml.safe_load(text("CITATION.cff"))
    assert citation["cff-version"] == "1.2.0" and citation["message"] and citation["type"] == "software"
    assert citation["title"] == PROJECT["name"]
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["keywords"] == PROJECT["keywords"]
    assert citation["authors"] == PROJECT["authors"]
    assert citation["abstract"] == PROJECT["description"]


def test_the_tagline_and_the_holders_of_the_rights_are_the_same_everywhere():
    site = text("mkdocs.yml")
    assert f"**{PROJECT['description']}**" in text("README.md")
    assert f"site_description: {PROJECT['description']}" in site
    (author,) = PROJECT["authors"]
    assert re.search(rf"^Copyright \(c\) \d+ {author['name']}$", text("LICENSE"), flags=re.MULTILINE)
    assert f"copyright: {PROJECT['license']} licence, {author['name']}" in site


def test_only_systems_that_are_tested_are_named():
    named_systems = [line for line in PROJECT["classifiers"] if line.startswith("Operating System")]
    assert named_systems == ["Operating System :: POSIX :: Linux"]


def targets() -> set[str]:
    phony = re.search(r"^\.PHONY: (.*)$", text("Makefile"), flags=re.MULTILINE)
    return set(phony[1].split())


@pytest.mark.parametrize("path", [*PAGES, *WORKFLOWS, ROOT / "README.md"], ids=named)
def test_every_target_of_make_that_is_named_exists(path):
    commands = re.findall(r"(?:`|^(?: +- run: )?)make ((?:[a-z]+)(?: [a-z]+)*)", path.read_text(), flags=re.MULTILINE)
    assert {target for command in commands for target in command.split()} <= targets()


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_every_file_that_a_page_links_to_exists(path):
    links = [link for link in re.findall(r"\]\(([^)]+)\)", path.read_text()) if "://" not in link]
    assert [link for link in links if not (path.parent / link.partition("#")[0]).is_file()] == []


# --- workflows ----------------------------------------------------------------------------------------------------

workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def jobs(path: Path) -> dict[str, dict]:
    return yaml.safe_load(path.read_text())["jobs"]


def steps(path: Path) -> list[dict]:
    return [step for job in jobs(path).values() for step in job.get("steps", ())]


def test_there_are_workflows():
    assert [path.stem for path in WORKFLOWS] == ["docs", "publish", "tests", "wheel"]


@workflow
def test_a_workflow_may_only_read(path):
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    granted = {name: job["permissions"] for name, job in jobs(path).items() if "permissions" in job}
    assert granted == ({"publish": {"id-token": "write"}} if path.stem == "publish" else {})
    assert "secrets." not in path.read_text()


@workflow
def test_actions_are_pinned_by_major_version(path):
    uses = [step["uses"] for step in steps(path) if "uses" in step]
    assert [each for each in uses if not re.fullmatch(r"(actions|pypa)/[a-z-]+@(release/)?v\d+", each)] == []


@workflow
def test_a_called_workflow_exists_and_can_be_called(path):
    called = [job["uses"] for job in jobs(path).values() if "uses" in job]
    assert [each for each in called if "workflow_call:" not in text(each)] == []
    assert len(called) == (2 if path.stem == "publish" else 0)


def test_the_tests_run_on_every_python_and_on_both_kinds_of_cpu():
    matrix = jobs(ROOT / ".github" / "workflows" / "tests.yml")["tests"]["strategy"]["matrix"]
    declared = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: Python :: 3." in line]
    assert matrix["python"] == declared
    assert {machine.endswith("-arm") for machine in matrix["machine"]} == {True, False}


def test_nothing_is_published_before_the_tests_and_the_wheel_pass():
    publishing = jobs(ROOT / ".github" / "workflows" / "publish.yml")["publish"]
    assert publishing["needs"] == ["tests", "wheel"]
    assert any("${GITHUB_REF_NAME#v}" in step.get("run", "") for step in publishing["steps"])


# --- issue forms --------------------------------------------------------------------------------------------------


def test_there_are_issue_forms():
    assert [path.stem for path in FORMS] == ["bug", "feature", "wrong_number"]
    assert yaml.safe_load(text(".github", "ISSUE_TEMPLATE", "config.yml")) == {"blank_issues_enabled": True}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_is_complete(path):
    form = yaml.safe_load(path.read_text())
    assert form.keys() == {"name", "description", "title", "labels", "body"}
    fields = [element for element in form["body"] if element["type"] != "markdown"]
    assert {element["type"] for element in fields} <= {"input", "textarea"}
    assert all(element["attributes"]["label"] for element in fields)
    ids = [element["id"] for element in fields]
    assert len(ids) == len(set(ids))
    assert any(element.get("validations", {}).get("required") for element in fields)


# --- the conda recipe ---------------------------------------------------------------------------------------------


def spaced(requirement: str) -> str:
    """As conda writes it: `numpy >=2.0`."""
    return re.sub(r"^([A-Za-z0-9._-]+)", r"\1 ", requirement)


def test_the_conda_recipe_has_the_core_of_the_package():
    recipe = yaml.safe_load(text("recipe", "recipe.yaml"))
    python = f"python {PROJECT['requires-python']}"
    build = tomllib.loads(text("pyproject.toml"))["build-system"]["requires"]
    assert recipe["requirements"]["run"] == [python, *map(spaced, PROJECT["dependencies"])]
    assert recipe["requirements"]["host"] == [python, *map(spaced, build), "pip"]
    assert recipe["context"]["version"] == PROJECT["version"]
    assert recipe["package"] == {"name": PROJECT["name"], "version": "${{ version }}"}
    assert recipe["about"] == {
        "summary": PROJECT["description"], "license": PROJECT["license"], "license_file": PROJECT["license-files"][0],
    }  # fmt: skip
    entries = [f"{name} = {place}" for name, place in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == entries


# --- the container ------------------------------------------------------------------------------------------------


def instruction(name: str) -> list[str]:
    (line,) = re.findall(rf"^{name} (.*)$", text("Dockerfile"), flags=re.MULTILINE)
    return json.loads(line[line.index("[") :])


def test_the_container_installs_extras_that_exist_and_what_the_server_needs():
    (extras,) = re.findall(r"limner-\*\.whl\)\[([a-z,]+)\]", text("Dockerfile"))
    assert "web" in extras.split(",")
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


def test_the_container_starts_a_command_that_exists():
    program, verb, *words = instruction("ENTRYPOINT")
    assert program in PROJECT["scripts"]
    parameters = typer.main.get_command(app).commands[verb].params
    options = {option for parameter in parameters for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options
    ports = [parameter.default for parameter in parameters if "--port" in parameter.opts]
    assert f"\nEXPOSE {ports[0]}\n" in text("Dockerfile")


def test_the_container_runs_without_privileges_on_a_python_that_is_supported():
    lines = text("Dockerfile").splitlines()
    user = lines.index("USER limner")
    assert any("useradd" in line and line.endswith(" limner") for line in lines[:user])
    assert not any(line.startswith("USER") for line in lines[user + 1 :])
    versions = set(re.findall(r"^FROM python:([0-9.]+)-slim", text("Dockerfile"), flags=re.MULTILINE))
    assert {f"Programming Language :: Python :: {version}" for version in versions} <= set(PROJECT["classifiers"])


def test_the_health_of_the_container_is_a_page_that_everyone_may_see():
    from limner.web.app import routes

    _, _, code = instruction("HEALTHCHECK")
    ast.parse(code)
    (path,) = re.findall(r"http://127\.0\.0\.1:8765(/\w+)", code)
    assert path in {route.path for route in routes() if "GET" in (getattr(route, "methods", None) or ())}


def test_the_container_gets_what_the_package_is_built_from():
    allowed = {line[1:] for line in text(".dockerignore").splitlines() if line.startswith("!")}
    assert {"pyproject.toml", "constraints.txt", "src", PROJECT["readme"], *PROJECT["license-files"]} == allowed
