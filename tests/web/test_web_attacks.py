"""The attack table: each line of it tried, each refused."""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache

import pytest
from starlette.testclient import TestClient

import websites
from limner.annotate.store.answers import answers
from limner.web.rate_limits import Throttle
from limner.web.security import POLICY, refuse_open
from websites import EVIL, PASSWORD, patient

SQL = [
    "'; DROP TABLE judgement; --",
    "' OR '1'='1",
    "1) UNION SELECT password_hash FROM annotator --",
    "\x00",
    "%00",
    '"',
]


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    return websites.client(websites.filled(tmp_path_factory.mktemp("store") / "answers.db"))


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    return websites.client(websites.filled(tmp_path_factory.mktemp("team") / "answers.db"), team=True)


@pytest.fixture(scope="module")
def annotator(team):
    return websites.enrolled(team, "ann", "annotator")


# --- script in a caption ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    ["/search?k=50&q=balloon", "/failures", "/judge", "/judge?at=3", f"/search?q={EVIL}", f"/failure?query={EVIL}"],
)
def test_a_script_in_a_caption_or_an_address_is_shown_as_text(local, address):
    page = patient(local, address).text
    assert "<script>window.hacked" not in page
    assert "<img src=x" not in page


def test_the_hostile_captions_are_really_shown(local):
    assert (
        "&lt;script&gt;window.hacked"
        in patient(local, f"/search?image={websites.world().test.images.ids[0]}&k=50").text
    )


def test_a_script_in_a_name_is_shown_as_text(tmp_path):
    """Names come from people: in the header, in the table of annotators, in the reasons of exclusions."""
    visitor = websites.client(websites.filled(tmp_path / "answers.db", tasks=1, size=2, replication=1))
    name = "<script>hacked()</script>"
    assert visitor.post("/name", data={"name": name}).status_code == 303
    task = visitor.post("/api/task", json={}).json()["task"]
    visitor.post("/api/answers", json={"item": task["items"][0]["id"], "key": "of-a-script", "grade": 1})
    assert answers(visitor.app.state.site.store)[0].annotator == name
    for address in ("/", "/admin", "/judge"):
        page = visitor.get(address).text
        assert "&lt;script&gt;hacked" in page, address
        assert "<script>hacked" not in page, address


def test_every_reply_carries_the_policy(local):
    for address in ("/", "/nosuch", "/search?k=nonsense", "/static/judge.js", "/api/nosuch", "/image?id=nosuch"):
        reply = local.get(address)
        assert reply.headers["content-security-policy"] == POLICY, address
        assert reply.headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in POLICY


def test_a_fault_of_ours_carries_the_policy_and_tells_nothing(local, monkeypatch):
    monkeypatch.setattr(local.app.state.site, "visitor", lambda request: object())
    with pytest.raises(AttributeError):
        local.get("/")  # the test client shows what the server logs
    quiet = TestClient(local.app, base_url="http://localhost", raise_server_exceptions=False)
    assert "Traceback" not in quiet.get("/").text


# --- paths ------------------------------------------------------------------------------------------------------

PATHS = ["../../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "file:///etc/passwd", "....//etc/passwd"]


@pytest.mark.parametrize("path", PATHS)
def test_an_image_is_an_id_and_never_a_path(local, path):
    reply = local.get("/image", params={"id": path})
    assert reply.status_code == 404
    assert "root:" not in reply.text


@pytest.mark.parametrize("path", [*PATHS, "..\\app.py", "../app.py", "%2e%2e/app.py", "limner.css/../../app.py"])
def test_only_assets_are_served_as_assets(local, path):
    reply = local.get(f"/static/{path}")
    assert reply.status_code == 404
    assert "import" not in reply.text.replace("important", "")


def test_a_collection_is_a_name_and_never_a_spec(local):
    assert local.get("/image", params={"c": "flickr8k:/etc", "id": "x"}).status_code == 404


def test_nothing_is_fetched_from_elsewhere(local, monkeypatch):
    """No server-side request: an address where an id, a query or a picture belongs is only a string."""
    import socket

    def refused(*_, **__):
        raise AssertionError("the server tried to reach something")

    monkeypatch.setattr(socket.socket, "connect", refused)
    for name in ("id", "q", "image", "c"):
        local.get("/search", params={name: "http://169.254.169.254/latest/meta-data"})
    sent = local.post("/search", data={"file": "http://169.254.169.254/"})
    assert sent.status_code == 400


# --- pictures ---------------------------------------------------------------------------------------------------


@cache
def bomb(width: int, height: int) -> bytes:
    """A PNG of black pixels: a few kilobytes that unpack to hundreds of megabytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(1 + width)) for _ in range(height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


BAD = {
    "200 megapixels": lambda: bomb(20_000, 10_000),
    "truncated JPEG": lambda: websites.picture("JPEG", (600, 400))[:-800],
    "SVG": lambda: b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
    "HTML": lambda: b"<!doctype html><script>alert(1)</script>",
    "HTML behind a GIF's first bytes": lambda: b"GIF89a/*" + b"<script>alert(1)</script>" * 40,
    "nothing": lambda: b"",
    "BMP, which is not taken": lambda: websites.picture("BMP"),
    "TIFF, which is not taken": lambda: websites.picture("TIFF"),
    "PNG cut in its data": lambda: websites.picture("PNG", (600, 400))[:200],
}


@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
def test_what_is_no_picture_is_refused(local, make):
    reply = local.post("/search", files={"file": ("photo.png", make(), "image/png")})
    assert reply.status_code in (400, 422)
    assert "<script>alert" not in reply.text


def test_a_bomb_is_refused_before_it_is_unpacked(local):
    import tracemalloc

    data = bomb(20_000, 10_000)
    assert len(data) < 400_000
    tracemalloc.start()
    local.post("/search", files={"file": ("photo.png", data)})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40_000_000


def test_too_many_bytes_are_refused(local):
    assert local.post("/search", content=b"", headers={"content-length": "14000000"}).status_code == 413
    assert local.post("/search", files={"file": ("x.png", b"\0" * 12_500_000)}).status_code == 422


def test_a_body_that_lies_about_its_length_is_cut_off(local):
    """Chunked, without a length: the bytes are counted as they come."""
    stream = (b"\0" * 1_000_000 for _ in range(20))
    assert local.post("/api/answers", content=stream, headers={"content-type": "application/json"}).status_code == 413


def test_a_picture_is_kept_only_as_encoded_anew(local):
    out = io.BytesIO()
    from PIL import Image

    Image.new("RGB", (80, 60)).save(out, "JPEG", comment=b"<script>alert(1)</script>")
    reply = local.post("/search", files={"file": ("../../evil.html", out.getvalue(), "text/html")})
    assert reply.status_code == 303
    key = reply.headers["location"].partition("upload=")[2].partition("&")[0]
    image_reply = local.get(f"/upload/{key}")
    assert image_reply.headers["content-type"] == "image/jpeg"
    assert b"script" not in image_reply.content


# --- cookies, forms, other sites --------------------------------------------------------------------------------


@pytest.mark.parametrize("cookie", ["forged", "A" * 43, "1", "../../x", "' OR 1=1 --", "A" * 5000])
def test_a_forged_cookie_is_nobody(team, cookie):
    reply = TestClient(team.app, base_url="http://localhost", follow_redirects=False).get(
        "/judge", headers={"cookie": f"limner_session={cookie}"}
    )
    assert reply.status_code == 303
    assert reply.headers["location"].startswith("/login")


def test_a_changed_cookie_is_nobody(team, annotator):
    token = annotator.cookies["limner_session"]
    for changed in (token[:-1] + ("A" if token[-1] != "A" else "B"), token.swapcase(), token + "A"):
        visitor = TestClient(team.app, base_url="http://localhost", follow_redirects=False)
        assert visitor.get("/judge", headers={"cookie": f"limner_session={changed}"}).status_code == 303


def test_a_session_ends_on_the_server(team):
    enrolled_visitor = websites.enrolled(team, "leaving", "annotator")
    token = enrolled_visitor.cookies["limner_session"]
    assert enrolled_visitor.get("/judge").status_code == 200
    enrolled_visitor.post("/logout")
    assert enrolled_visitor.get("/judge", headers={"cookie": f"limner_session={token}"}).status_code == 303


def test_a_replayed_form_changes_nothing(local):
    import re

    page = local.get("/judge").text
    fields = dict(re.findall(r'name="(item|key|at)" value="([^"]+)"', page))
    before = len(answers(local.app.state.site.store))
    for _ in range(3):
        assert local.post("/judge", data={**fields, "grade": "4"}).status_code == 303
    assert len(answers(local.app.state.site.store)) == before + 1
    reply = local.post("/judge", data={**fields, "grade": "1"})
    assert reply.status_code == 409, "the key of one answer must not carry another"


def test_an_answer_replayed_by_somebody_else_is_refused(team, annotator):
    second_visitor = websites.enrolled(team, "other", "annotator")
    item = annotator.post("/api/task", json={}).json()["task"]["items"][0]["id"]
    sent = {"item": item, "key": "replayed-0001", "grade": 4}
    assert annotator.post("/api/answers", json=sent).json()["repeated"] is False
    assert second_visitor.post("/api/answers", json=sent).status_code in (400, 403)


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://elsewhere.example"},
        {"origin": "null"},
    ],
    ids=str,
)
def test_a_form_of_another_site_is_refused(local, headers):
    for address in ("/judge", "/name", "/search", "/api/answers", "/admin/tasks", "/logout"):
        assert local.post(address, headers=headers).status_code == 403, address


def test_another_name_for_this_machine_is_refused(local):
    assert local.get("/", headers={"host": "rebound.example:8765"}).status_code == 421
    assert local.get("/", headers={"host": "localhost:8765"}).status_code == 200


def test_cookies_are_kept_from_scripts_and_other_sites(team):
    from limner.annotate.store.people import make_invite

    token = make_invite(team.app.state.site.store)
    visitor = TestClient(team.app, base_url="http://localhost", follow_redirects=False)
    form = {"name": "cookie", "password": PASSWORD, "again": PASSWORD}
    cookie = visitor.post(f"/invite/{token}", data=form).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


# --- who may what -----------------------------------------------------------------------------------------------

ADMIN = ["/admin", "/admin/export?form=csv", "/api/status", "/search", "/failures", "/compare", "/api/search?q=x"]
ADMIN_FORMS = [
    "/admin/tasks", "/admin/study", "/admin/invite", "/admin/account", "/admin/aside", "/admin/review", "/admin/scale",
    "/admin/assign",
]  # fmt: skip


@pytest.mark.parametrize("address", ADMIN)
def test_an_annotator_may_not_see(annotator, team, address):
    assert annotator.get(address).status_code == 403
    stranger = TestClient(team.app, base_url="http://localhost", follow_redirects=False)
    assert stranger.get(address).status_code in (303, 401)


@pytest.mark.parametrize("address", ADMIN_FORMS)
def test_an_annotator_and_a_reviewer_may_not_do(annotator, team, address):
    assert annotator.post(address, data={"role": "admin", "annotator": "1"}).status_code == 403
    if address not in ("/admin/aside", "/admin/review"):
        name = "rev" + address.replace("/", "-")
        assert websites.enrolled(team, name, "reviewer").post(address, data={"role": "admin"}).status_code == 403


def test_an_annotator_sees_no_score_no_role_and_nobody_elses_answer(annotator):
    task = annotator.post("/api/task", json={}).json()["task"]
    assert {name for item in task["items"] for name in item} == {"id", "text", "picture", "grade", "reasons", "comment"}
    page = annotator.get("/judge").text
    assert "gold" not in page
    assert "score" not in page


# --- logging in -------------------------------------------------------------------------------------------------


def test_many_logins_are_throttled_before_they_cost_anything(tmp_path, monkeypatch):
    from limner.web import accounts

    visitor = websites.client(tmp_path / "answers.db", team=True)
    websites.enrolled(visitor, "ann", "annotator")
    hashed = []
    fits = accounts.fits
    monkeypatch.setattr(accounts, "fits", lambda kept, password: hashed.append(1) or fits(kept, password))
    replies = [visitor.post("/login", data={"name": "ann", "password": f"guess {n}"}) for n in range(300)]
    assert [reply.status_code for reply in replies[:10]] == [401] * 10
    assert {reply.status_code for reply in replies[11:]} == {429}
    assert int(replies[-1].headers["retry-after"]) > 0
    assert len(hashed) <= 11
    right = visitor.post("/login", data={"name": "ann", "password": PASSWORD})
    assert right.status_code == 429, "a guess in time must not come through either"


def test_the_throttle_follows_the_account_across_addresses():
    clock = [0.0]
    throttle = Throttle(10, 30.0, clock=lambda: clock[0])
    assert sum(throttle.take("ann") == 0 for _ in range(10_000)) == 10
    clock[0] = 300.0
    assert sum(throttle.take("ann") == 0 for _ in range(10_000)) == 10


def test_a_login_says_the_same_of_unknown_names_and_wrong_passwords(team, annotator):
    replies = [team.post("/login", data={"name": name, "password": "wrong wrong"}) for name in ("ann", "nobody")]
    texts = [reply.text.replace('value="ann"', "").replace('value="nobody"', "") for reply in replies]
    assert [reply.status_code for reply in replies] == [401, 401]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "next_page", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_a_login_leads_to_this_site_only(team, next_page):
    assert 'name="next" value="/"' in team.get("/login", params={"next": next_page}).text


def test_there_is_no_signup_and_an_invitation_works_once(team):
    from limner.annotate.store.people import make_invite

    form = {"name": "once", "password": PASSWORD, "again": PASSWORD}
    assert team.post("/invite/guessed-token", data=form).status_code == 403
    token = make_invite(team.app.state.site.store)
    assert team.post(f"/invite/{token}", data={**form, "password": "short", "again": "short"}).status_code == 400
    assert team.post(f"/invite/{token}", data=form).status_code == 303
    assert team.post(f"/invite/{token}", data={**form, "name": "twice"}).status_code == 403
    team.cookies.clear()


def test_passwords_are_kept_under_argon2id(team, annotator):
    from limner.annotate.store.people import by_name

    password_hash = by_name(team.app.state.site.store, "ann").password_hash
    assert password_hash.startswith("$argon2id$")
    assert "m=19456,t=2,p=1" in password_hash
    assert PASSWORD not in password_hash


# --- SQL --------------------------------------------------------------------------------------------------------

FIELDS = {
    "/search": ["q", "c", "image", "s", "fix", "k", "upload"],
    "/failures": ["c", "s", "d", "class", "start"],
    "/failure": ["query"],
    "/slices": ["c", "a", "b", "by", "m", "n"],
    "/wins": ["c", "a", "b", "d", "kind", "order", "q", "by", "value", "class", "start"],
    "/image": ["c", "id", "size"],
    "/judge": ["at"],
}
FORMS = {
    "/judge": ["item", "key", "grade", "reason", "comment", "at", "act"],
    "/study": ["question", "key", "choice", "study"],
    "/name": ["name"],
    "/login": ["name", "password", "next"],
    "/admin/account": ["annotator", "active"],
    "/admin/reset": ["annotator"],
    "/admin/tasks": ["s", "depth", "pairs", "people"],
    "/admin/aside": ["annotator", "reason"],
    "/admin/scale": ["scale"],
    "/admin/assign": ["annotator", "tasks", "to", "act"],
}


@pytest.mark.parametrize("text", SQL, ids=repr)
def test_sql_in_any_field_is_a_word_or_is_refused(local, text):
    store = local.app.state.site.store
    before = answers(store)
    for address, names in FIELDS.items():
        for name in names:
            assert patient(local, address, params={name: text}).status_code in (200, 400, 404, 422), (address, name)
    for address, names in FORMS.items():
        for name in names:
            assert local.post(address, data={name: text}).status_code in (303, 400, 404, 422), (address, name)
    for body in ({"item": text, "key": text, "grade": text}, {"item": 1, "key": text, "grade": 4}, text, [text]):
        assert local.post("/api/answers", json=body).status_code == 400
        assert local.post("/api/study-answers", json=body).status_code == 400
    local.cookies.clear()
    assert answers(store) == before


# --- who can reach it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "::", "example.org"])
def test_it_is_not_reached_from_outside_without_accounts(host):
    from limner.core.errors import LimnerError

    with pytest.raises(LimnerError, match="--team"):
        refuse_open(host, team=False)
    refuse_open(host, team=True)
