"""Writes label_studio.json: what Label Studio exports of tasks that limner wrote, and of a project of its own form.

Run by hand: `python tests/annotate/freeze_label_studio.py ENVIRONMENT`, where ENVIRONMENT is a virtual environment with
label-studio (1.23.2 was used). The real server is started; tasks are imported, answered by two accounts, skipped and
left empty through its programming interface, and exported with `exportType=JSON`.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STARS = """<View><Image name="photo" value="$photo"/><Text name="words" value="$sentence"/>
<Choices name="fit" toName="photo"><Choice value="match"/><Choice value="no match"/><Choice value="unclear"/></Choices>
<Rating name="stars" toName="photo" maxRating="5"/></View>"""
STAR_TASKS = [{"photo": f"p{n}.jpg", "sentence": f"sentence {n}"} for n in range(4)]


def written() -> list[dict[str, Any]]:
    """Tasks as limner writes them: a pair with two answers, and three that nobody answered."""
    from limner.annotate.labelling_tools import tasks
    from limner.annotate.scale import ImportedAnswer

    texts = {f"t{n}": f"a caption with “quotes”, 犬 and <b>{n}</b>" for n in range(4)}
    pairs = [(f"photos/i {n}.jpg", f"t{n}") for n in range(4)]
    answers = [
        ImportedAnswer("ann", *pairs[0], 4, (), 1500),
        ImportedAnswer("bob", *pairs[0], 3, ("wrong-colour",), 2000),
    ]
    return tasks(pairs, texts, answers=answers, image_url="/data/local-files/?d={image}")


def predicted() -> list[dict[str, Any]]:
    """Tasks of a collection, with its grades as predictions."""
    import limner
    from limner.annotate.labelling_tools import collection_tasks

    pairs = limner.Judgements.from_pairs([("i0", "t0", 1), ("i0", "t1", 0.5), ("i1", "t1", 0)], candidates=["t0", "t1"])
    texts = limner.Items(["t0", "t1"], ["a dog", "a cat"], kind="text")
    return collection_tasks(limner.Collection("toy", limner.Items(["i0", "i1"], [None, None]), texts, pairs))


@contextmanager
def serving(place: Path, folder: Path, token: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Label Studio, from the moment its first page came: its port and process."""
    folder.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "BASE_DATA_DIR": str(folder),
        "USERNAME": "a@example.org",
        "PASSWORD": secrets.token_hex(8),
        "USER_TOKEN": token,
    }
    environment = os.environ | {f"LABEL_STUDIO_{name}": value for name, value in settings.items()}
    environment |= {"COLLECT_ANALYTICS": "False", "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true"}
    environment.pop("PYTHONPATH", None)
    command = [place / "bin" / "label-studio", "start", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await_page(port, process)
        yield port, process
    finally:
        process.kill()
        process.wait()


def api_call(port: int, token: str, path: str, body: object) -> Any:
    """One request to the programming interface of Label Studio."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
    connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
    reply = connection.getresponse()
    data = reply.read()
    if reply.status >= 300:
        raise RuntimeError(f"Label Studio answered {path} with {reply.status}: {data[:200]!r}")
    return json.loads(data)


def _await_page(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1200):
        if process.poll() is not None:
            raise RuntimeError(f"Label Studio ended with status {process.returncode}")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/user/login/")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError("Label Studio never answered")


def second_account(port: int, token: str) -> str:
    """A further account, made with the link for invitations; returns its token."""
    link = api_call(port, token, "/api/invite", None)["invite_url"]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", link)
    reply = connection.getresponse()
    page, cookie = reply.read().decode(), reply.headers["Set-Cookie"].split(";")[0]
    cookies = "; ".join(c.split(";")[0] for c in reply.headers.get_all("Set-Cookie"))
    hidden_field = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert hidden_field, cookie
    form = f"csrfmiddlewaretoken={hidden_field[1]}&email=b%40example.org&password=Long-Enough-1&allow_newsletters=false"
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": cookies}
    connection.request("POST", link, form, headers)
    reply = connection.getresponse()
    reply.read()
    assert reply.status == 302, reply.status
    cookies = "; ".join(c.split(";")[0] for c in reply.headers.get_all("Set-Cookie"))
    connection.request("GET", "/api/current-user/token", headers={"Cookie": cookies})
    return str(json.loads(connection.getresponse().read())["token"])


def chosen(control: str, *choices: str) -> dict[str, Any]:
    """A result of a control with choices."""
    value = {"choices": list(choices)}
    return {"from_name": control, "to_name": "image", "type": "choices", "value": value}


def frozen(port: int, token: str) -> dict[str, Any]:
    """Both projects, answered and exported."""
    from limner.annotate.labelling_tools import interface

    second_token = second_account(port, token)

    def project_with(title: str, form: str, tasks: list[dict[str, Any]]) -> tuple[int, list[int]]:
        project = api_call(port, token, "/api/projects", {"title": title, "label_config": form})["id"]
        api_call(port, token, f"/api/projects/{project}/import?commit_to_project=true", tasks)
        listed = api_call(port, token, f"/api/tasks?project={project}&page_size=100", None)["tasks"]
        return project, [each["id"] for each in listed]

    def annotate(task: int, *result: dict[str, Any], sender: str = token, ending: str = "") -> None:
        api_call(port, sender, f"/api/tasks/{task}/annotations/{ending}", {"result": list(result), "lead_time": 2.5})

    def exported(project: int) -> Any:
        return api_call(port, token, f"/api/projects/{project}/export?exportType=JSON&download_all_tasks=true", None)

    own_form, numbers = project_with("own", interface(), written())
    annotate(numbers[1], chosen("grade", "mostly no"), chosen("reasons", "wrong-size", "not-in-image"))
    annotate(numbers[1], chosen("grade", "100% no"), sender=second_token)
    annotate(numbers[2], ending="?was_cancelled=1")
    annotate(numbers[2], sender=second_token)
    stars, numbers_of_stars = project_with("stars", STARS, STAR_TASKS)
    for task, word in zip(numbers_of_stars, ("match", "no match", "unclear"), strict=False):
        annotate(task, {**chosen("fit", word), "to_name": "photo"})
    rating = {"from_name": "stars", "to_name": "photo", "type": "rating", "value": {"rating": 5}}
    annotate(numbers_of_stars[3], rating)
    guessed, _ = project_with("predictions", interface(), predicted())
    predictions = [each["total_predictions"] for each in exported(guessed)]
    return {"own": exported(own_form), "stars": exported(stars), "predictions": predictions}


if __name__ == "__main__":
    token = secrets.token_hex(20)
    with tempfile.TemporaryDirectory() as folder, serving(Path(sys.argv[1]), Path(folder) / "data", token) as (port, _):
        document = frozen(port, token)
    Path(__file__).with_name("label_studio.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
