"""Takes the pictures of the documentation from a real server, with the Chromium on the PATH: run it, then look at them.

`python docs/extensions/web_screenshots.py forms` takes those of the forms for the study lead only, `... estimate` that
of a labelling study, `... report` that of the demo's report.
"""

from __future__ import annotations

import io
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))
ASSETS = ROOT / "docs" / "assets"
IMAGES = 500
DESK, PHONE = {"width": 1100, "height": 760}, {"width": 390, "height": 780}


def main() -> None:
    """Starts servers on `scenes`, walks through them and writes the pictures."""
    from playwright.sync_api import sync_playwright

    wanted = sys.argv[1:] or ["forms", "take", "estimate", "report"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        served_pictures = [make for make in (forms, take) if make.__name__ in wanted]
        if served_pictures:
            with served(Path(folder, "answers.db")) as where:
                for make in served_pictures:
                    make(browser, where)
        if "estimate" in wanted:
            estimate(browser, Path(folder))
        if "report" in wanted:
            report(browser, Path(folder))
        browser.close()


@contextmanager
def served(store: Path) -> Iterator[str]:
    """A server of `scenes` with this store; gives its address."""
    import uvicorn

    from limner.web import make_app

    with socket.socket() as listening:
        app = make_app(["scenes"], store=store, options={"images": IMAGES})
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        time.sleep(1)


def take(browser: Any, where: str) -> None:
    """Every picture."""
    page = browser.new_context(base_url=where, viewport=DESK, reduced_motion="reduce").new_page()
    arrive(page, "/search?q=two+brown+rabbits+in+a+room&s=histograms&fix=csls&k=9")
    shot(page, "serve-search")
    arrive(page, "/search?q=two+red+dogs+-house+background:meadow&s=histograms&by=hybrid&k=15")
    shot(page, "serve-words")
    arrive(page, "/failures")
    shot(page, "serve-failures")
    arrive(page, "/failures?class=colour")
    page.click("a[href*='/failure?'] >> nth=1")
    page.wait_for_load_state("networkidle")
    shot(page, "serve-failure")
    arrive(page, "/compare")
    shot(page, "serve-compare")
    arrive(page, "/map")
    page.wait_for_selector("#map[data-ready]", timeout=120_000)
    page.select_option("#colour", label="failure")
    page.wait_for_timeout(1000)
    shot(page, "serve-map")
    arrive(page, "/admin#make")
    page.fill("#pairs", "36")
    page.click("button:has-text('Make tasks')")
    page.wait_for_selector("text=tasks created", timeout=120_000)
    judged(browser, where)
    arrive(page, "/admin")
    shot(page, "serve-progress")


OWN = """\
question = "Is this the right photo of the product?"
grades = [
  {label = "same product", counts_as = "yes", meaning = "Model and colour are the same."},
  {label = "variant", counts_as = "weak yes"},
  {label = "other product", counts_as = "no", key = "x", reasons = true},
]
reasons = [
  {label = "Another colour", key = "c", failure = "colour"},
  {label = "Blurred", key = "b"},
]
"""


def forms(browser: Any, where: str) -> None:
    """The forms for the lead: own grades and reasons, and assigned tasks with a comment."""
    page = browser.new_context(base_url=where, viewport=DESK, reduced_motion="reduce").new_page()
    arrive(page, "/admin#scale")
    page.fill("#own-scale", OWN)
    page.evaluate("document.activeElement.blur(); document.getElementById('scale').parentElement.scrollIntoView()")
    shot(page, "serve-scale")
    page.fill("#pairs", "36")
    page.click("button:has-text('Make tasks')")
    page.wait_for_selector("text=tasks created", timeout=120_000)
    for name in ("third", "fourth"):
        commented(browser, where, name)
    arrive(page, "/")
    arrive(page, "/admin#assigned")
    for name in ("third", "fourth"):
        page.select_option("#assign-to", label=name)
        page.click("button[value=assign]")
        page.wait_for_selector(f"#assigned .scroll th:text-is('{name}')")
    page.evaluate("document.getElementById('comments').scrollIntoView()")
    shot(page, "serve-assign")


def commented(browser: Any, where: str, name: str) -> None:
    """Somebody answers one pair with a comment."""
    context = browser.new_context(base_url=where, viewport=DESK, reduced_motion="reduce")
    context.add_cookies([{"name": "limner_name", "value": name, "url": where}])
    page = context.new_page()
    arrive(page, "/judge")
    page.click("#guide button.main")
    page.wait_for_selector("#judge[data-ready]:not([data-locked])")
    page.keyboard.press("1")
    page.keyboard.press("k")
    page.keyboard.type("Do boats count as vehicles?")
    page.keyboard.press("Enter")
    page.wait_for_selector("#state:text-is('Saved.')", state="attached")
    context.close()


def judged(browser: Any, where: str) -> None:
    """Two people answer, so that there is something to agree on; on the way, what they see."""
    for name, viewport, scheme, slips in (("first", DESK, "light", ()), ("second", PHONE, "dark", (3, 11, 17))):
        context = browser.new_context(base_url=where, viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
        context.add_cookies([{"name": "limner_name", "value": name, "url": where}])
        page = context.new_page()
        arrive(page, "/judge")
        page.click("#guide button.main")
        for number in range(40):
            if not page.is_visible("#words"):
                page.keyboard.press("Enter")
            page.wait_for_selector("#judge[data-ready]:not([data-locked])")
            page.keyboard.press("3" if number in slips else "21"[number % 2] if number % 3 else "4")
            if number == 1:
                page.keyboard.press("3")
                shot(page, "serve-judge" if viewport == DESK else "serve-phone")
            page.keyboard.press("Enter")
            page.wait_for_selector("#state:text-is('Saved.'), #finished:not([hidden])", state="attached")
        context.close()


def estimate(browser: Any, folder: Path) -> None:
    """A planned study that is nearly answered: people say what is true."""
    store = folder / "study.db"
    truth = planned(store)
    answered(store, truth)
    with served(store) as where:
        page = browser.new_context(base_url=where, viewport=DESK, reduced_motion="reduce").new_page()
        arrive(page, "/estimate")
        page.wait_for_selector(".good", timeout=120_000)
        shot(page, "serve-estimate")


def planned(store: Path) -> Any:
    """Plans a study of two systems, one of which knows more; gives the complete judgements."""
    import numpy as np

    import limner

    held = limner.load("scenes", images=IMAGES).test
    complete = held.extra["complete"]
    truth = np.array([[(complete.grade(i, t) or 0) > 0 for t in held.texts.ids] for i in held.images.ids])
    random, given = np.random.default_rng(0), []
    for name, weight in (("better", 3.0), ("worse", 2.0)):
        np.save(store.parent / f"{name}.npy", weight * truth + random.normal(size=truth.shape))
        given += ["--scores", f"{name}={store.parent / name}.npy"]
    words = ["annotate", "plan", str(store), "scenes", "-O", f"images={IMAGES}", *given, "--direction", "t2i"]
    for width in ("4", "6.5"):  # drawn for the first, stopped at the second, before every pair is answered
        subprocess.run(
            [sys.executable, "-m", "limner", *words, "--measure", "R@1", "--half-width", width],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return complete


def answered(store: Path, truth: Any) -> None:
    """One person answers until the intervals are narrow enough."""
    from limner.annotate.results import studies
    from limner.annotate.store import open_store
    from limner.annotate.store.answers import submit
    from limner.annotate.store.people import add_annotator
    from limner.annotate.store.tasks import lease

    with open_store(store) as opened:
        who = add_annotator(opened, "first").id
        while (task := lease(opened, who)) is not None and not all(study.narrow for study in studies(opened)):
            for item in task.items:
                grade = 4 if (truth.grade(item.image, item.caption) or 0) > 0 else 1
                submit(opened, who, item.id, key=secrets.token_hex(16), grade=grade, milliseconds=900)


def report(browser: Any, folder: Path) -> None:
    """The demo's report: its first screen, what the labels miss in dark, and the curves on a phone, side by side."""
    from PIL import Image

    demo = [sys.executable, "-m", "limner", "demo", "-o", str(folder / "demo")]
    subprocess.run(demo, check=True, stdout=subprocess.DEVNULL)
    desk, tall = {"width": 1125, "height": 810}, {"width": 390, "height": 1445}
    screens = [("light", desk, None, 1.0), ("dark", desk, "Counted as wrong, but right", 1.0)]
    screens.append(("light", tall, "Recall curves", 446 / 390))
    first, dark, phone = (_screen(browser, folder / "demo" / "report.html", *screen) for screen in screens)
    sheet = Image.new("RGB", (1653, 1702), "#dedad2")
    for picture, place in ((first, (27, 27)), (dark, (27, 865)), (phone, (1180, 27))):
        sheet.paste(picture, place)
    sheet.quantize(160).save(ASSETS / "report.png", optimize=True)


def _screen(browser: Any, file: Path, scheme: str, viewport: dict[str, int], title: str | None, scale: float) -> Any:
    """A picture of a report, scrolled to the title of a section; of its top where None."""
    from PIL import Image

    context = browser.new_context(
        viewport=viewport, color_scheme=scheme, device_scale_factor=scale, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(file.as_uri())
    if title is not None:
        page.locator(f"h2:text-is('{title}'), h3:text-is('{title}')").evaluate("title => title.scrollIntoView()")
    page.wait_for_timeout(1000)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    context.close()
    return picture


def arrive(page: Any, path: str) -> None:
    """Opens a page, and waits while it is being made."""
    page.set_default_timeout(240_000)
    page.goto(path)
    page.wait_for_selector('h1:not(:has-text("One moment"))', state="attached", timeout=120_000)
    page.wait_for_load_state("networkidle")


def shot(page: Any, name: str) -> None:
    """Writes one picture, in few colours: small files, and a page of the documentation that loads at once."""
    from PIL import Image

    with Image.open(io.BytesIO(page.screenshot())) as picture:
        picture.convert("RGB").quantize(160).save(ASSETS / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
