"""The guideline and the lead's view: edited, practised, disagreements, review with images, time left."""

from __future__ import annotations

import re

import pytest

import websites
from limner.annotate.guideline import newest
from limner.annotate.store.answers import answers, history, undo
from limner.annotate.store.people import add_annotator
from websites import judged, settled, words


@pytest.fixture
def visitor(tmp_path):
    return websites.client(websites.filled(tmp_path / "answers.db", tasks=1, size=6))


def test_an_admin_edits_the_guideline_and_answers_carry_its_version(visitor):
    image = websites.world().test.images.ids[0]
    form = {"text": "Look twice.", "examples": f"{image} | a red boat | 3 | It is orange.\n"}
    assert visitor.post("/admin/guideline", data=form).status_code == 303
    guideline = newest(visitor.app.state.site.store)
    assert (guideline.version, guideline.text, guideline.examples[0].why) == ("2", "Look twice.\n", "It is orange.")
    page = visitor.get("/judge").text
    assert "Look twice." in page and f'name="guideline" value="{guideline.version}"' in page
    judged(visitor, "one", [4, 4, 1, 1, 2, 3], milliseconds=1500)
    assert {each.guideline for each in answers(visitor.app.state.site.store)} == {"2"}
    assert f"{image} | a red boat | 3 | It is orange." in visitor.get("/admin").text
    for bad in ("nosuch | a | 3", "no parts", f"{image} | a | 9"):
        assert visitor.post("/admin/guideline", data={**form, "examples": bad}).status_code in (400, 404)
    body = {"item": 1, "key": "k" * 12, "grade": 4, "guideline": "77"}
    assert visitor.post("/api/answers", json=body).status_code == 400


def test_a_withdrawal_carries_the_guideline_in_force(visitor):
    """The page names the newest version; from Python it is that of the withdrawn answer."""
    store = visitor.app.state.site.store
    visitor.post("/admin/guideline", data={"text": "Look twice.", "examples": ""})
    first, second, *_ = judged(visitor, "one", [4, 4, 1, 1, 2, 3], milliseconds=1500)["items"]
    visitor.post("/admin/guideline", data={"text": "Look three times.", "examples": ""})
    assert visitor.post("/api/answers/undo", json={"item": first["id"], "key": "withdrawn-1"}).status_code == 200
    undo(store, add_annotator(store, "one", existing=True).id, second["id"], key="withdrawn-2")
    assert [row["guideline"] for row in history(store)[-2:]] == ["3", "2"]


def test_practice_uses_the_examples_first_and_says_what_the_guideline_says(visitor):
    image = websites.world().test.images.ids[3]
    visitor.post("/admin/guideline", data={"text": "Look.", "examples": f"{image} | a red boat | 2 | No boat."})
    first = words(visitor.get("/practice?n=1&grade=4"))
    assert "a red boat" in first and "The guideline says 2, mostly no. No boat." in first
    assert "Close. The guideline says 2" in words(visitor.get("/practice?n=1&grade=1"))
    assert "Yes: 2, mostly no." in words(visitor.get("/practice?n=1&grade=2"))
    assert "written for this image" in words(visitor.get("/practice?n=2&grade=1"))
    assert visitor.get("/practice?n=4").status_code == 400


def test_disagreements_show_everybodys_answer_with_image_and_caption(visitor):
    task = judged(visitor, "one", [4, 4, 1, 2, 3, 1], milliseconds=1500)
    judged(visitor, "two", [4, 1, 1, 2, 4, 1], milliseconds=1500)
    settled(visitor)
    page = visitor.get("/admin/disagreements")
    assert "2 pairs have different grades" in words(page)
    images = re.findall(r'alt="Image ([^"]+)"', page.text)
    image_ids = [re.search("id=([^&]+)", task["items"][n]["picture"])[1] for n in (1, 4)]
    assert images == image_ids  # yes against no first
    assert words(page).count("100% yes") >= 2 and "one" in words(page) and "1.5" in words(page)
    admin = words(settled(visitor))
    assert "See 2 disagreements" in admin and "12 of 12" in admin


def test_before_any_task_the_page_for_judging_says_so_and_one_label_is_singular(tmp_path):
    visitor = websites.client(tmp_path / "answers.db")
    page = words(visitor.get("/judge"))
    assert "No task yet" in page and "Nothing left" not in page and 'href="/admin#make"' in visitor.get("/judge").text
    assert "No study yet" in visitor.get("/study").text
    assert "Version 1, 0 examples" in words(visitor.get("/admin"))
    store = websites.filled(tmp_path / "one.db", tasks=1, size=1)
    visitor = websites.client(store)
    judged(visitor, "one", [4])
    judged(visitor, "two", [1])
    settled(visitor)
    assert "See 1 disagreement " in words(visitor.get("/admin")) and "1 pair judged" in words(visitor.get("/admin"))
    assert "1 pair has different grades" in words(visitor.get("/admin/disagreements"))
    assert "You have finished 1 task and given 1 answer." in words(visitor.get("/judge"))


def test_only_those_at_the_machine_are_told_that_nothing_leaves_it(tmp_path):
    assert "nothing leaves this machine" in words(websites.client(tmp_path / "own.db").get("/"))
    team = websites.client(tmp_path / "team.db", team=True)
    assert "this machine" not in words(websites.enrolled(team, "far", "admin").get("/"))


REFUSED = {
    "/judge": {"item": "99999", "key": "k" * 10, "grade": "4"},
    "/captions": {"assignment": "99999", "key": "k" * 10},
    "/study": {"question": "99999", "key": "k" * 10, "choice": "left"},
    "/admin/tasks": {"pairs": "none"},
    "/admin/study": {"kind": "none"},
    "/admin/aside": {"annotator": "99999", "reason": "x"},
    "/admin/review": {"assignment": "99999", "decision": "accept", "reason": "x"},
    "/admin/assign": {"annotator": "99999"},
    "/admin/guideline": {"text": ""},
    "/admin/scale": {"scale": "["},
}


@pytest.mark.parametrize("address", REFUSED)
def test_a_refused_form_keeps_the_navigation(visitor, address):
    reply = visitor.post(address, data=REFUSED[address])
    assert 400 <= reply.status_code < 500
    assert 'aria-label="Pages"' in reply.text and 'href="/admin"' in reply.text and 'href="/judge"' in reply.text
    assert 'class="error"' in reply.text


def test_a_refused_form_of_the_lead_keeps_what_was_sent(visitor):
    """Every form of the page; what a page shows is escaped."""
    sent = "one rule<script>"
    page = visitor.post("/admin/guideline", data={"text": sent, "examples": "no such | example"}).text
    assert "one rule&lt;script&gt;" in page and "no such | example" in page and "<script>one" not in page
    assert 'id="text"' in page.split('id="guideline"><p class="error"')[1]
    page = visitor.post("/admin/tasks", data={"pairs": "x7", "depth": "4", "people": "3", "s": "colours"}).text
    assert all(f'value="{value}"' in page for value in ("x7", "4", "3"))
    page = visitor.post("/admin/scale", data={"scale": "grades = []"}).text
    assert ">grades = []</textarea>" in page


OWN = """
question = "Is this <i>the</i> product?"
grades = [
  {label = "<b>same</b>", counts_as = "yes", meaning = "Model and colour are the same."},
  {label = "variant", counts_as = "weak yes"},
  {label = "other", counts_as = "no", key = "x", reasons = true},
]
reasons = [{label = "<script>colour</script>", name = "colour", key = "c"}]
"""


def test_an_admin_sets_own_grades_and_reasons_before_the_first_answer(visitor):
    visitor.cookies.set("limner_name", "one")
    assert "They can be changed until the first answer." in words(visitor.get("/admin"))
    assert "expected one that counts as yes" in words(visitor.post("/admin/scale", data={"scale": "grades = []"}))
    assert visitor.post("/admin/scale", data={"scale": OWN.replace("\n", "\r\n")}).status_code == 303
    for address in ("/judge", "/practice?n=1&grade=3", "/admin"):
        page = visitor.get(address).text
        assert "&lt;b&gt;same&lt;/b&gt;" in page and "<b>same" not in page and "100% yes" not in page, address
    page = visitor.get("/judge").text
    assert page.count('name="grade"') == 3 and 'name="grade" value="2"' not in page
    assert "&lt;script&gt;colour" in page and 'name="reason" value="colour"' in page and "wrong-colour" not in page
    assert "Is this &lt;i&gt;the&lt;/i&gt; product?" in page and "Model and colour are the same." in page
    assert "The guideline says" in words(visitor.get("/practice?n=1&grade=1"))
    form = {"text": "Look.", "examples": f"{websites.world().test.images.ids[0]} | a red boat | X | No."}
    assert visitor.post("/admin/guideline", data=form).status_code == 303
    assert newest(visitor.app.state.site.store).examples[0].grade == 1
    schema = visitor.get("/api/openapi.json").json()["paths"]["/api/answers"]["post"]["requestBody"]["content"]
    sent = schema["application/json"]["schema"]
    assert sent["properties"]["grade"]["enum"] == [1, 3, 4] and sent["if"]["properties"]["grade"]["enum"] == [4]
    judged(visitor, "one", [4, 3, 1, 1, 3, 4])
    judged(visitor, "two", [4, 1, 1, 1, 3, 4])
    settled(visitor)
    disputed = words(visitor.get("/admin/disagreements"))
    assert "2 variant" in disputed and "x other" in disputed
    assert "because there are answers under them" in words(visitor.get("/admin"))
    assert "12 answers under its present grades" in words(visitor.post("/admin/scale", data={"scale": ""}))
    assert '"variant"' in visitor.get("/admin/export?form=csv").text


def test_comments_are_shown_to_the_lead_escaped_and_only_to_the_lead(tmp_path):
    visitor = websites.client(websites.filled(tmp_path / "answers.db", tasks=1, size=2))
    for name, grades in (("one", (4, 1)), ("two", (1, 1))):
        visitor.cookies.set("limner_name", name)
        task = visitor.post("/api/task", json={}).json()["task"]
        for item, grade in zip(task["items"], grades, strict=True):
            body = {"item": item["id"], "key": f"{name}-{item['id']:08d}", "grade": grade}
            grade_text = f"<b>{name}</b> says {grade}"
            assert visitor.post("/api/answers", json={**body, "comment": "x" * 501}).status_code == 400
            assert visitor.post("/api/answers", json={**body, "comment": ["x"]}).status_code == 400
            assert visitor.post("/api/answers", json={**body, "comment": grade_text}).status_code == 200
            page_text = visitor.get(f"/judge?assignment={task['assignment']}").text
            assert f"&lt;b&gt;{name}" in page_text and (name == "one" or "one&lt;/b&gt;" not in page_text)
    settled(visitor)
    disputed = visitor.get("/admin/disagreements").text
    assert disputed.count("&lt;b&gt;one&lt;/b&gt; says 4") == disputed.count("&lt;b&gt;two&lt;/b&gt; says 1") == 1
    lead = visitor.get("/admin").text
    assert lead.count("says 1</q>") == 3 and "<b>two" not in lead
    assert "<b>one</b> says 4" in visitor.get("/admin/export?form=csv").text


def test_many_comments_do_not_push_the_rest_of_the_page_away(tmp_path):
    """With 2,000 answers the page was 24,000 pixels long, and the forms were at its end."""
    visitor = websites.client(websites.filled(tmp_path / "answers.db", tasks=1, size=7, replication=1))
    task = visitor.post("/api/task", json={}).json()["task"]
    for item in task["items"]:
        body = {"item": item["id"], "key": f"one-{item['id']:08d}", "grade": 4, "comment": f"says {item['id']}"}
        assert visitor.post("/api/answers", json=body).status_code == 200
    lead = settled(visitor).text
    first_part, folded_part = lead.split("<summary>2 more comments</summary>")
    assert (
        len(re.findall("<q>says", first_part)) == 5
        and len(re.findall("<q>says", folded_part.split("</details>")[0])) == 2
    )
    assert "7 of 7 answers that are asked for" in words(visitor.get("/admin")) and "from 0 proposals" not in lead


def test_the_lead_assigns_tasks_and_sees_who_is_how_far(tmp_path):
    visitor = websites.client(websites.filled(tmp_path / "answers.db", tasks=3, size=2, replication=1))
    store = visitor.app.state.site.store
    one, two = (add_annotator(store, name).id for name in ("<b>one", "two"))
    assert "No task is assigned" in words(visitor.get("/admin"))
    assert visitor.post("/admin/assign", data={"annotator": two, "tasks": "2"}).status_code == 303
    judged(visitor, "three", [4, 4])  # the only task that is not kept for somebody
    assert visitor.post("/api/task", json={}).json()["task"] is None
    visitor.cookies.set("limner_name", "two")
    assert "2 tasks assigned to you are left." in words(visitor.get("/judge"))
    judged(visitor, "two", [4, 4])
    assert "two 2 1 1" in words(visitor.get("/admin"))
    assert "choose who gets" in words(visitor.post("/admin/assign", data={"annotator": two, "to": "", "act": "move"}))
    assert visitor.post("/admin/assign", data={"annotator": two, "to": one, "act": "move"}).status_code == 303
    lead = visitor.get("/admin")
    assert "&lt;b&gt;one 1 0 1" in words(lead) and "two 1 1 0" in words(lead)
    assert visitor.post("/admin/assign", data={"annotator": one, "act": "release"}).status_code == 303
    judged(visitor, "three", [4, 4])
    for bad in ({"annotator": 99, "tasks": "1"}, {"annotator": two, "tasks": "0"}, {"annotator": two, "act": "drop"}):
        assert visitor.post("/admin/assign", data=bad).status_code in (400, 404)
    assert "no open task has a place" in words(visitor.post("/admin/assign", data={"annotator": two, "tasks": "1"}))


def test_time_left_and_the_agreement_matrix_are_shown(visitor, monkeypatch):
    judged(visitor, "one", [4, 4, 1, 2, 3, 1], milliseconds=1500)
    assert "Left 6 answers. " in words(settled(visitor)), "six answers of the first day are no forecast"
    monkeypatch.setattr("limner.annotate.overview.TIMED", 6)
    assert "6 answers: about a minute of work for one person at 1.5 s each. " in words(settled(visitor))
    judged(visitor, "two", [4, 1, 1, 2, 4, 1], milliseconds=1500)
    page = settled(visitor).text
    assert 'class="square"' in page and "Answers by day" in page
