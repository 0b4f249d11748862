"""Accounts: who may invite, what a closed account leaves behind, roles and passwords, on the page and in the shell."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

import websites
from limner.annotate.store import NotAllowed, open_store
from limner.annotate.store.people import (
    add_annotator,
    annotators,
    by_name,
    invite_first_admin,
    make_invite,
    open_invites,
    open_session,
    read_invite,
    revoke_invite,
    session_of,
    set_active,
    set_password_hash,
    set_role,
    use_invite,
)
from limner.cli import app as command
from limner.core.errors import LimnerError, UnknownId
from limner.web.accounts import RULE, fits, refuse_weak
from websites import PASSWORD, browser, words


@pytest.fixture
def store(database):
    with open_store(database) as opened:
        yield opened


@pytest.fixture
def team(database):
    visitor = websites.client(database, team=True)
    yield visitor
    visitor.app.state.site.close()


@pytest.fixture
def admin(team):
    return websites.enrolled(team, "boss", "admin")


def number(team, name: str) -> int:
    return by_name(team.app.state.site.store, name).id


# --- invitations ------------------------------------------------------------------------------------------------


def test_a_link_of_an_earlier_start_is_worthless_once_there_is_a_later_one_or_an_admin(store):
    first, second = invite_first_admin(store), invite_first_admin(store)
    with pytest.raises(NotAllowed):
        read_invite(store, first)
    stray = make_invite(store, role="admin")  # as older versions left them behind
    use_invite(store, second, "boss", password_hash="hash")
    assert invite_first_admin(store) is None
    for token in (first, second, stray):
        with pytest.raises(NotAllowed):
            use_invite(store, token, "eve", password_hash="hash")
    assert open_invites(store) == []


def test_the_invitations_of_whoever_is_no_admin_any_more_are_worthless(store):
    boss, second_admin = (
        add_annotator(store, name, role="admin", password_hash="hash").id for name in ("boss", "other")
    )
    closed = make_invite(store, by=second_admin)
    set_active(store, second_admin, False)
    set_active(store, second_admin, True)
    demoted = make_invite(store, role="admin", by=second_admin)
    set_role(store, second_admin, "annotator")
    set_role(store, second_admin, "admin")
    for token in (closed, demoted):
        with pytest.raises(NotAllowed):
            read_invite(store, token)
    assert read_invite(store, make_invite(store, by=boss)) == "annotator"
    assert [each.by for each in open_invites(store)] == ["boss"]


def test_an_invitation_is_revoked_once(store):
    boss = add_annotator(store, "boss", role="admin", password_hash="hash").id
    token, second_token = make_invite(store, by=boss), make_invite(store, by=boss, role="reviewer")
    (invite, _) = open_invites(store)
    revoke_invite(store, invite.id)
    with pytest.raises(NotAllowed):
        use_invite(store, token, "eve", password_hash="hash")
    with pytest.raises(UnknownId):
        revoke_invite(store, invite.id)
    use_invite(store, second_token, "rev", password_hash="hash")
    assert open_invites(store) == []


# --- sessions ---------------------------------------------------------------------------------------------------


def test_an_account_that_is_opened_again_has_no_sessions(store):
    annotator = add_annotator(store, "ada", password_hash="hash").id
    add_annotator(store, "boss", role="admin", password_hash="hash")
    token = open_session(store, annotator)
    set_active(store, annotator, False)
    set_active(store, annotator, True)
    assert session_of(store, token) is None


def test_a_new_password_ends_the_sessions_or_changes_nothing(store):
    annotator = add_annotator(store, "ada", password_hash="hash").id
    token = open_session(store, annotator)
    with pytest.raises(UnknownId):
        set_password_hash(store, annotator + 99, "new")
    assert session_of(store, token) is not None
    set_password_hash(store, annotator, "new")
    assert session_of(store, token) is None


# --- on the page ------------------------------------------------------------------------------------------------


def test_one_changes_ones_own_password(team, admin):
    second_browser = browser(team)
    assert second_browser.post("/login", data={"name": "boss", "password": PASSWORD}).status_code == 303
    form = {"old": PASSWORD, "password": "three odd words", "again": "three odd words"}
    assert admin.post("/account", data={**form, "old": "wrong wrong"}).status_code == 401
    assert admin.post("/account", data={**form, "again": "others"}).status_code == 400
    assert admin.post("/account", data={**form, "password": "boss12345!", "again": "boss12345!"}).status_code == 400
    reply = admin.post("/account", data=form)
    assert reply.status_code == 200
    assert "Your password has been changed" in reply.text
    assert admin.get("/admin").status_code == 200, "whoever changed it stays"
    assert second_browser.get("/judge").status_code == 303, "everybody else goes"
    assert second_browser.post("/login", data={"name": "boss", "password": PASSWORD}).status_code == 401
    assert second_browser.post("/login", data={"name": "boss", "password": "three odd words"}).status_code == 303


def test_whoever_found_a_session_may_not_guess_the_password(team, admin):
    form = {"old": "a guess", "password": "three odd words", "again": "three odd words"}
    assert [admin.post("/account", data=form).status_code for _ in range(30)].count(401) == 10


def test_an_admin_changes_roles_and_passwords(team, admin):
    ann = websites.enrolled(team, "ann", "annotator")
    form = {"annotator": number(team, "ann")}
    assert admin.post("/admin/role", data={**form, "role": "reviewer"}).status_code == 303
    assert ann.get("/search").status_code != 403
    assert admin.post("/admin/role", data={**form, "role": "king"}).status_code == 404
    reply = admin.post("/admin/password", data=form)
    password = re.search(r'id="made" value="([^"]+)"', reply.text)[1]
    assert ann.get("/judge").status_code == 303, "the old session is over"
    assert ann.post("/login", data={"name": "ann", "password": password}).status_code == 303


def _link(admin, form) -> str:
    return re.search(r'value="http://localhost(/reset/[^"]+)"', admin.post("/admin/reset", data=form).text)[1]


def test_a_lost_password_is_reset_once_by_a_link(team, admin):
    ann = websites.enrolled(team, "ann", "annotator")
    link, second_link = (_link(admin, {"annotator": number(team, "ann")}) for _ in range(2))
    assert ann.get("/judge").status_code != 303, "until it is used nothing changes"
    fresh, new = browser(team), {"password": "three odd words", "again": "three odd words"}
    assert "ann" in fresh.get(link).text
    assert fresh.post(link, data={**new, "again": "others"}).status_code == 400
    assert fresh.post(link, data=new).status_code == 303 and fresh.get("/judge").status_code != 303
    assert ann.get("/judge").status_code == 303, "the old session is over"
    for used in (link, second_link):  # the second one was made for the old password too
        assert browser(team).get(used).status_code == 403
        assert browser(team).post(used, data=new).status_code == 403
    assert browser(team).post("/login", data={"name": "ann", "password": "three odd words"}).status_code == 303


def test_a_link_that_was_made_up_expired_or_is_for_a_closed_account_is_refused(team, admin):
    from limner.annotate.store.people import make_reset

    websites.enrolled(team, "ann", "annotator")
    store, form = team.app.state.site.store, {"annotator": number(team, "ann")}
    good = _link(admin, form)
    annotator_id, expires, mark = good.removeprefix("/reset/").split(".")
    boss = number(team, "boss")
    late = make_reset(store, int(annotator_id), hours=-1)
    for bad in (
        f"{boss}.{expires}.{mark}",
        f"{annotator_id}.{int(expires) + 1}.{mark}",
        f"{annotator_id}.{expires}",
        "x",
        "1.2.\u00e9",
        late,
    ):
        assert browser(team).get(f"/reset/{bad}").status_code == 403
    assert admin.post("/admin/account", data={**form, "active": "no"}).status_code == 303
    assert browser(team).get(good).status_code == 403
    assert admin.post("/admin/reset", data=form).status_code == 403


def test_nobody_loses_their_own_account_by_a_click(team, admin):
    form = {"annotator": number(team, "boss"), "active": "no", "role": "annotator"}
    for address in ("/admin/role", "/admin/account", "/admin/password", "/admin/reset"):
        assert admin.post(address, data=form).status_code == 400


def test_an_admin_sees_and_revokes_invitations(team, admin):
    page = admin.post("/admin/invite", data={"role": "reviewer"}).text
    link = re.search(r'value="http://localhost(/invite/[^"]+)"', page)[1]
    (waiting,) = open_invites(team.app.state.site.store)
    assert f"{waiting.id} reviewer boss" in words(admin.get("/admin"))
    assert admin.post("/admin/revoke", data={"invitation": waiting.id}).status_code == 303
    assert browser(team).get(link).status_code == 403
    assert admin.post("/admin/revoke", data={"invitation": waiting.id}).status_code == 404


@pytest.mark.parametrize("address", ["/admin/role", "/admin/password", "/admin/reset", "/admin/revoke"])
def test_nobody_else_does(team, admin, address):
    form = {"annotator": number(team, "boss"), "role": "annotator", "invitation": 1}
    for role in ("annotator", "reviewer"):
        assert websites.enrolled(team, role, role).post(address, data=form).status_code == 403
    assert browser(team).post(address, data=form).status_code == 303


def test_alone_there_are_no_accounts(tmp_path):
    visitor = websites.client(tmp_path / "answers.db")
    assert visitor.get("/account").status_code == 303
    for address in ("/account", "/admin/role", "/admin/password", "/admin/revoke", "/admin/account", "/admin/invite"):
        assert visitor.post(address, data={"annotator": "1"}).status_code == 400


# --- passwords --------------------------------------------------------------------------------------------------

WEAK = {
    "short": "has 9 characters",
    "aaaaaaaaaabbbb": "different characters",
    "abababababab": "different characters",
    "0123456789": "consecutive characters",
    "zyxwvutsrqp": "consecutive characters",
    "qwertyuiop": "common password",
    "Password2024!": "common password",
    "P@ssw0rd!!!!": "common password",
    "iloveyou123": "common password",
    "1q2w3e4r5t": "common password",
    "ada lovelace 9": "holds your name",
    "ECALEVOL ADA": "holds your name",
    "x" * 201: "has 201 characters",
}


@pytest.mark.parametrize("weak", WEAK, ids=lambda text: text[:20])
def test_what_is_guessed_first_is_refused_in_words(weak):
    entered = "short one" if weak == "short" else weak
    with pytest.raises(LimnerError) as refused:
        refuse_weak(entered, "Ada Lovelace")
    assert WEAK[weak] in str(refused.value)
    assert RULE in str(refused.value)
    assert entered not in str(refused.value), "a password is never shown"


@pytest.mark.parametrize("good", ["correct horse battery", "k7f2-99xq-miny", "ünïcödé wörds", "a" * 20 + "bcdef"])
def test_others_are_taken(good):
    refuse_weak(good, "Ada Lovelace")


def test_a_weak_password_is_refused_where_an_account_is_made(team):
    token = make_invite(team.app.state.site.store)
    form = {"name": "ann", "password": "password123", "again": "password123"}
    reply = browser(team).post(f"/invite/{token}", data=form)
    assert reply.status_code == 400
    assert "common password" in reply.text
    assert by_name(team.app.state.site.store, "ann") is None


# --- from the shell ---------------------------------------------------------------------------------------------


def shell(*arguments: str, typed: str = ""):
    return CliRunner().invoke(command, ["annotate", "people", "list", *arguments], input=typed)


def test_the_shell_lists_and_changes(database):
    with open_store(database) as store:
        boss = add_annotator(store, "boss", role="admin", password_hash="hash").id
        annotator = add_annotator(store, "ada", password_hash="hash").id
        token, session = make_invite(store, by=boss), open_session(store, annotator)
    listing = shell(database)
    assert listing.exit_code == 0
    assert re.search(r"ada +annotator +open", listing.stdout)
    assert re.search(r"annotator +boss", listing.stdout)
    done = shell(database, "--role", "ada=reviewer", "--password", "ada", "--revoke", "all", typed="three odd words\n")
    assert done.exit_code == 0, done.stderr
    with open_store(database) as store:
        ada = by_name(store, "ada")
        assert ada.role == "reviewer"
        assert fits(ada.password_hash, "three odd words")
        assert session_of(store, session) is None
        with pytest.raises(NotAllowed):
            read_invite(store, token)
    assert shell(database, "--close", "ada").exit_code == 0
    assert re.search(r"ada +reviewer +closed", shell(database).stdout)
    assert shell(database, "--open", "ada", "--json").exit_code == 0
    with open_store(database) as store:
        assert [each.active for each in annotators(store)] == [True, True]


def test_the_shell_makes_a_link_that_resets_once(database):
    from limner.annotate.store.people import read_reset, use_reset

    with open_store(database) as store:
        add_annotator(store, "ada", password_hash="hash")
    done = shell(database, "--reset", "ada", "--url", "https://labels.example.org/")
    assert done.exit_code == 0, done.stderr
    token = re.search(r"https://labels\.example\.org/reset/(\S+)", done.stderr)[1]
    with open_store(database) as store:
        assert read_reset(store, token).name == "ada"
        use_reset(store, token, password_hash="new")
        with pytest.raises(NotAllowed):
            use_reset(store, token, password_hash="newer")
        assert by_name(store, "ada").password_hash == "new"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--reset", "eve"], "no account 'eve'"),
        (["--role", "ada"], "expected NAME=ROLE"),
        (["--role", "ada=king"], "unknown role 'king'"),
        (["--role", "eve=admin"], "no account 'eve'"),
        (["--password", "ada"], "no password was given"),
        (["--revoke", "x"], "expected the number of an invitation"),
        (["--revoke", "7"], "no open invitation 7"),
        (["--close", "boss"], "the last admin must keep the role"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_what_cannot_be_is_said(tmp_path, arguments, message):
    store_path = str(tmp_path / "work.db")
    with open_store(store_path) as store:
        add_annotator(store, "boss", role="admin", password_hash="hash")
        add_annotator(store, "ada", password_hash="hash")
    done = shell(store_path, *arguments)
    assert done.exit_code in (2, 3)
    assert message in done.stderr.replace("\n", " ")


def test_an_error_page_has_the_pages_of_the_visitor_and_none_for_a_stranger(tmp_path, monkeypatch):
    from limner.web.site import Site

    visitor = websites.client(tmp_path / "answers.db", team=True)
    person = websites.enrolled(visitor, "anna", "annotator")
    for address, status in (("/nosuch", 404), ("/compare", 403)):
        page = person.get(address)
        assert page.status_code == status and 'href="/judge"' in page.text and 'href="/compare"' not in page.text
    stranger = websites.browser(visitor).get("/nosuch")
    assert stranger.status_code == 404 and "<nav" not in stranger.text and "Back to the first page" in stranger.text

    def lost(*_):
        raise OSError("the store is gone")

    monkeypatch.setattr(Site, "visitor", lost)
    assert "<nav" not in person.get("/nosuch").text
