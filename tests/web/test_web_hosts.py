"""The names a server answers under, the links it makes, what it checks before it says that it serves, odd requests."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from typer.testing import CliRunner

import websites
from limner.annotate.store.people import make_invite
from limner.cli import app as command
from limner.core.errors import LimnerError
from limner.web import make_app
from limner.web.security import public_url
from websites import PASSWORD, browser

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def team(database):
    visitor = websites.client(database, team=True)
    yield visitor
    visitor.app.state.site.close()


# --- names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "evil.example", "localhost.evil.example", "localhost@evil.example", "", "[", "[::1", "::1", "[::1]:", "[::1]x",
        "[::1]:80@evil", "[::1]:80:80", "127.0.0.1:80@evil", "127.0.0.1:80@evil.example:80", "127.0.0.1:",
        "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:٨٠", "127.0.0.1:-1", "127.0.0.1:80:80", "127.0.0.1:80/path",
        "127.0.0.1:80?x", "127.0.0.1:80#x", "localhost:80 evil", "localhost, evil.example", "localhost..",
        ".localhost", "localhost\\", "user:word@localhost", "localhost%2eevil",
    ],
)  # fmt: skip
def test_a_team_does_not_answer_under_any_name(local, name):
    assert local.get("/login", headers={"host": name.encode()}).status_code == 421


@pytest.mark.parametrize("second", ["localhost", "evil.example"])
def test_one_request_has_one_name(local, second):
    for names in (("localhost", second), (second, "localhost")):
        assert local.get("/login", headers=[("host", name) for name in names]).status_code == 421


@pytest.mark.parametrize(
    "lines",
    [
        ["GET /login HTTP/1.1"],
        ["GET /login HTTP/1.0"],
        ["GET /login HTTP/1.1", "Host: HERE", "Host: HERE"],
        ["GET /login HTTP/1.1", "Host: HERE", "Host: evil.example"],
        ["GET /login HTTP/1.1", "Host: HERE@evil.example"],
        ["GET /login HTTP/1.1", "Host: HERE/evil.example"],
        ["GET http://evil.example/login HTTP/1.1", "Host: HERE"],
        ["GET @evil.example/login HTTP/1.1", "Host: HERE"],
        ["GET //evil.example/login HTTP/1.1", "Host: HERE"],
    ],
)
def test_a_server_does_not_take_another_name_from_the_wire(local, lines):
    with websites.running(local.app) as address:
        url = urlsplit(address)
        with socket.create_connection((url.hostname, url.port), timeout=20) as line:
            line.sendall("\r\n".join([*lines, "Connection: close", "", ""]).replace("HERE", url.netloc).encode())
            reply = b"".join(iter(lambda: line.recv(65536), b""))
    assert re.match(rb"HTTP/1.1 (400|404|421) ", reply), reply[:200]
    assert b"evil.example" not in reply


@pytest.mark.parametrize(
    "origin",
    [
        "null", "", "http://", "localhost", "//localhost", "file://localhost", "http://localhost@evil.example",
        "http://localhost.evil.example", "http://localhost/", "http://localhost:80@evil", "HTTP://evil.example",
        "chrome-extension://localhost",
    ],
)  # fmt: skip
def test_a_form_from_an_origin_that_is_not_this_page_is_refused(local, origin):
    assert local.post("/logout", headers={"origin": origin}).status_code == 403
    assert local.post("/logout", headers=[("origin", "http://localhost"), ("origin", origin)]).status_code == 403
    origins = [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")]
    assert local.post("/logout", headers=origins).status_code == 403
    assert local.post("/logout", headers={"origin": "http://localhost"}).status_code == 303


def test_forwarded_names_are_not_read(tmp_path):
    """Not even from a proxy: its own name for the server is in `Host`, or --url says it."""
    team = websites.client(tmp_path / "a.db", team=True, proxies=["10.0.0.1"])
    admin = websites.enrolled(team, "boss", "admin")
    forged = {"x-forwarded-host": "evil.example", "forwarded": "host=evil.example", "referer": "http://evil.example/"}
    headers = {**forged, "cookie": f"limner_session={admin.cookies['limner_session']}"}
    page = browser(team, address="10.0.0.1").post("/admin/invite", data={"role": "annotator"}, headers=headers)
    assert 'value="http://localhost/invite/' in page.text and "evil" not in page.text


def test_a_server_without_a_name_takes_no_request_without_one():
    visitor = TestClient(make_app(store="unused.db", hosts=("",), url=None), base_url="http://localhost")
    assert [visitor.get("/", headers={"host": name}).status_code for name in ("", "@")] == [421, 421]


def test_an_ipv4_address_is_a_name_of_a_server_that_listens_on_ipv6():
    from limner.web.security import _local_address

    assert _local_address({"server": ("::ffff:192.0.2.7", 80)}) == {"192.0.2.7"}
    assert _local_address({"server": ("2001:db8::7", 80)}) == {"[2001:db8::7]"}


def test_a_team_answers_under_its_own_names(tmp_path):
    team = websites.client(tmp_path / "a.db", team=True, hosts=("192.0.2.7",), url="https://judge.example.org:8443")
    for name in (
        "localhost",
        "127.0.0.1:8765",
        "[::1]:8765",
        "192.0.2.7:8765",
        "judge.example.org:8443",
        "JUDGE.example.org.",
    ):
        assert team.get("/login", headers={"host": name}).status_code == 200, name
    assert team.get("/login", headers={"host": "example.org"}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.2", "::1"])
def test_an_address_that_it_listens_at_is_a_name(host):
    """Whatever is written in --host, the page under the address that is shown answers."""
    app = make_app(store="unused.db", hosts=(host,))
    host_text = f"[{host}]" if ":" in host else host
    visitor = TestClient(app, base_url=f"http://{host_text}:8765")
    assert visitor.get("/static/limner.css").status_code == 200


def test_the_address_a_connection_came_in_at_is_a_name():
    """Listening everywhere, the server cannot know its addresses beforehand; the connection does."""
    app = make_app(store="unused.db", team=True)
    assert TestClient(app, base_url="http://192.0.2.7:8765").get("/login").status_code == 200
    assert TestClient(app, base_url="http://evil.example").get("/login").status_code == 421


def test_links_are_made_from_the_address_that_was_given(tmp_path):
    team = websites.client(tmp_path / "a.db", team=True, url="https://judge.example.org")
    admin = websites.enrolled(team, "boss", "admin")
    headers = {"host": "127.0.0.1:8765", "cookie": f"limner_session={admin.cookies['limner_session']}"}
    page = admin.post("/admin/invite", data={"role": "annotator"}, headers=headers).text
    assert 'value="https://judge.example.org/invite/' in page


def test_links_behind_a_proxy_that_does_https(tmp_path):
    team = websites.client(tmp_path / "a.db", team=True, proxies=["10.0.0.1"])
    admin = websites.enrolled(team, "boss", "admin")
    session = admin.cookies["limner_session"]
    for address, scheme in (("10.0.0.1", "https"), ("203.0.113.9", "http")):
        visitor = browser(team, address=address)
        headers = {"x-forwarded-proto": "https", "cookie": f"limner_session={session}"}
        page = visitor.post("/admin/invite", data={"role": "annotator"}, headers=headers)
        assert f'value="{scheme}://localhost/invite/' in page.text, address
        login = visitor.post("/login", data={"name": "boss", "password": PASSWORD}, headers=headers)
        secure = ["secure" in each.lower() for each in login.headers.get_list("set-cookie")]
        assert secure == [scheme == "https"] * 2


@pytest.mark.parametrize(
    "url",
    [
        "https://büro.example",
        "https://a..b",
        "https://x.org:0",
        "judge.example.org",
        "ftp://x.org",
        "https://",
        "https://x.org/under",
        "https://a@x.org",
        "https://x.org:99999",
    ],
)
def test_an_address_that_cannot_be_is_refused(url):
    with pytest.raises(LimnerError, match="--url"):
        public_url(url)


def test_a_form_through_a_proxy_that_renames_the_host_is_taken(tmp_path):
    team = websites.client(tmp_path / "a.db", team=True, url="https://judge.example.org")
    headers = {"host": "127.0.0.1:8765", "origin": "https://judge.example.org"}
    assert team.post("/logout", headers=headers).status_code == 303
    assert team.post("/logout", headers={**headers, "origin": "https://evil.example"}).status_code == 403


# --- https ------------------------------------------------------------------------------------------------------


def test_a_browser_that_came_by_https_is_told_to_stay_there(tmp_path):
    team = websites.client(tmp_path / "a.db", team=True, url="https://judge.example.org")
    reply = team.get("/login", headers={"host": "judge.example.org"})
    assert re.fullmatch(r"max-age=\d{8}", reply.headers["strict-transport-security"])
    assert "strict-transport-security" not in team.get("/login").headers, "localhost is everybody's"
    plain = websites.client(tmp_path / "b.db", team=True, hosts=("192.0.2.7",))
    assert "strict-transport-security" not in plain.get("/login", headers={"host": "192.0.2.7"}).headers


# --- before it says that it serves ------------------------------------------------------------------------------


def refused(folder: Path, *arguments: str) -> str:
    done = CliRunner().invoke(command, ["serve", "scenes", "--port", "0", "-O", "images=50", *arguments])
    assert done.exit_code == 3, done.output
    assert "serving" not in done.output
    return done.stderr.replace("\n", " ")


def test_a_certificate_that_cannot_be_used_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cert.pem").write_text("nonsense")
    (tmp_path / "key.pem").write_text("nonsense")
    assert "cannot use the certificate" in refused(tmp_path, "--certificate", "none.pem", "--key", "none.pem")
    assert "cannot use the certificate" in refused(tmp_path, "--certificate", "cert.pem", "--key", "key.pem")
    assert not (tmp_path / "limner-answers.db").exists()


def test_a_store_that_cannot_be_used_is_said(tmp_path):
    (tmp_path / "folder.db").mkdir()
    assert "folder.db" in refused(tmp_path, "--store", str(tmp_path / "folder.db"))
    assert "no folder" in refused(tmp_path, "--store", str(tmp_path / "none" / "a.db"))
    (tmp_path / "text.db").write_text("this is no database, but long enough to be taken for one" * 20)
    assert "text.db" in refused(tmp_path, "--store", str(tmp_path / "text.db"))
    nowhere = "postgresql://u:secret@127.0.0.1:9/none"
    assert "secret" not in refused(tmp_path, "--store", nowhere)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_store_that_only_others_may_write_is_said(tmp_path):
    path = websites.filled(tmp_path / "a.db")
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        assert "cannot" in refused(tmp_path, "--store", str(path))
    finally:
        tmp_path.chmod(0o700)


def test_a_database_that_may_only_be_read_is_said(postgres):
    postgres.psql("CREATE DATABASE reading;")
    database_url = postgres.get_uri(database="reading")
    websites.filled(database_url)
    postgres.psql("ALTER DATABASE reading SET default_transaction_read_only = on;")
    app = make_app([websites.world()], store=database_url)
    with pytest.raises(LimnerError, match="cannot write to the store"):
        app.state.site.prepare()
    app.state.site.close()


def test_the_store_is_for_its_owner_alone_while_it_is_served(tmp_path):
    """Also what SQLite keeps beside it, and whatever the shell's umask."""
    shell = f"umask 000; exec {sys.executable} -m limner serve scenes --team --port 0 --json -O images=50"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    server = subprocess.Popen(["bash", "-c", shell], cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
        rights = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)
    assert set(rights) == {"limner-answers.db", "limner-answers.db-wal", "limner-answers.db-shm"}
    assert set(rights.values()) == {0o600}


# --- odd requests -----------------------------------------------------------------------------------------------

FORM = b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\n\xff\xfe\'x\xc3\xa9\\ud800\r\n--b--\r\n'
CHARSETS = ["idna", "punycode", "undefined", "utf-7", "unicode_escape", "hex", "rot13", "utf-16", "\0", "é", "x" * 300]


@pytest.mark.parametrize("charset", CHARSETS, ids=lambda text: repr(text[:20]))
@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=b", "application/x-www-form-urlencoded"])
def test_an_odd_charset_is_no_fault_of_ours(team, charset, kind):
    header = f"{kind}; charset={charset}".encode("latin-1", "replace")
    assert team.post("/login", content=FORM, headers={"content-type": header}).status_code in (400, 415)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    return websites.client(tmp_path_factory.mktemp("odd") / "answers.db", team=True)


def never_faulty(visitor: TestClient, examples: int) -> None:
    """Sends bodies and content types of all kinds: each is answered or refused, and none is a fault."""
    kinds = st.sampled_from(
        ["multipart/form-data; boundary=b", "application/x-www-form-urlencoded", "application/json"]
    )
    quiet = TestClient(visitor.app, base_url="http://localhost", follow_redirects=False, raise_server_exceptions=False)
    turns = visitor.app.state.site.turns
    turns.by_address, turns.by_account = websites.endless(), websites.endless()

    @settings(max_examples=examples)
    @given(
        st.one_of(kinds, st.text(max_size=60)), st.text(max_size=40), st.one_of(st.just(FORM), st.binary(max_size=200))
    )
    def sent(kind, more, body):
        header = f"{kind}{more}".encode("latin-1", "replace").replace(b"\r", b"").replace(b"\n", b"")
        assert quiet.post("/invite/unknown", content=body, headers={"content-type": header}).status_code < 500

    sent()


def test_no_body_and_no_type_is_a_fault_of_ours(local):
    never_faulty(local, 100)


@pytest.mark.long
def test_none_of_ten_thousand_is(local):
    never_faulty(local, 10_000)


@pytest.mark.parametrize("bad", ["a\0b", "\0"], ids=repr)
def test_a_character_that_no_database_keeps_is_refused(team, bad):
    admin = websites.enrolled(team, "boss", "admin")
    number = str(admin.app.state.site.annotator(admin.app.state.site.visitor(_as(admin))))
    forms = {
        "/admin/aside": {"annotator": number, "reason": bad},
        "/admin/review": {"assignment": "1", "decision": "accept", "reason": bad},
        "/admin/invite": {"role": bad},
        "/login": {"name": bad, "password": bad},
        "/account": {"old": bad, "password": bad, "again": bad},
        f"/invite/{make_invite(admin.app.state.site.store)}": {"name": bad, "password": PASSWORD, "again": PASSWORD},
    }
    for address, form in forms.items():
        assert admin.post(address, data=form).status_code == 400, address
    assert admin.get("/search", params={"q": bad}).status_code == 400
    assert admin.post("/api/answers", json={"item": 1, "key": bad, "grade": 4}).status_code == 400
    assert admin.post("/api/answers", content=b'{"\\ud800": 1}', headers=_JSON).status_code == 400
    assert browser(team).get("/invite/a%00b").status_code == 403
    assert browser(team).get("/judge", headers={"cookie": "limner_session=a%00b"}).status_code == 303


_JSON = {"content-type": "application/json"}


def _as(visitor):
    from starlette.requests import Request

    cookie = f"limner_session={visitor.cookies['limner_session']}".encode()
    return Request({"type": "http", "headers": [(b"cookie", cookie)]})


def test_a_stranger_may_send_little(local):
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert browser(local).post("/login", content=b"name=" + b"x" * 70_000, headers=form).status_code == 413
    files = {"file": ("x.png", b"\0" * 70_000)}
    assert browser(local).post("/login", data={"name": "x"}, files=files).status_code == 413
    stream = (b"x" * 1000 for _ in range(100))
    assert browser(local).post("/login", content=stream, headers=form).status_code == 411


def test_an_invitation_and_a_password_are_not_written_to_the_log(team, monkeypatch, caplog):
    from limner.web import accounts

    def broken(*_, **__):
        raise RuntimeError("a fault")

    token = make_invite(team.app.state.site.store)
    monkeypatch.setattr(accounts, "hashed", broken)
    with caplog.at_level(logging.DEBUG, logger="limner.web"):
        form = {"name": "ann", "password": PASSWORD, "again": PASSWORD}
        assert browser(team).post(f"/invite/{token}", data=form).status_code == 500
    assert "POST /invite/{token}" in caplog.text
    assert token not in caplog.text
    assert PASSWORD not in caplog.text


def test_an_error_of_the_database_shows_no_values(team):
    from limner.annotate.store.schema import sa
    from limner.core.errors import LimnerError

    with pytest.raises((sa.exc.DBAPIError, LimnerError)) as failed, team.app.state.site.store.writing() as connection:
        connection.execute(sa.text("INSERT INTO nosuch VALUES (:value)"), {"value": "a hash of a password"})
    assert "a hash of a password" not in str(failed.value)


def test_answers_while_the_database_is_down_are_refused_in_words_and_stored_when_it_is_back(tmp_path, postgres):
    """With accounts and without: the page keeps what comes back with 503, and says why."""
    name = f"t{uuid.uuid4().hex}"
    postgres.psql(f"CREATE DATABASE {name};")
    visitor = websites.client(websites.filled(postgres.get_uri(database=name)), team=True)
    ann = websites.enrolled(visitor, "ann", "annotator")
    item = ann.post("/api/task", json={}).json()["task"]["items"][0]["id"]
    answer = {"item": item, "key": "anns-answer", "grade": 4}
    postgres.psql(
        f"ALTER DATABASE {name} ALLOW_CONNECTIONS false; "
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}';"
    )
    for _ in range(2):  # a connection that was open, and a new one
        reply = ann.post("/api/answers", json=answer)
        assert reply.status_code == 503 and "database cannot be reached" in reply.json()["error"]
        assert name not in reply.text and "postgres" not in reply.text
    page = websites.words(ann.get("/judge"))
    assert "database cannot be reached" in page and "Try again later" in page
    postgres.psql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true;")
    assert ann.post("/api/answers", json=answer).json()["revision"] == 1
    visitor.app.state.site.close()
