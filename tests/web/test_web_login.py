"""Guessing passwords: a stranger gets few tries, and takes none from anybody else."""

from __future__ import annotations

import http.client
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode, urlsplit

import pytest

import attack
import websites
from limner.web import accounts
from limner.web.jobs import WorkerPool
from limner.web.rate_limits import LoginTurns, Throttle
from websites import PASSWORD, browser


@pytest.fixture(autouse=True)
def quick(request, monkeypatch):
    """Hashing is what it is about elsewhere; here it would only take time. A server of its own hashes as ever."""
    if request.node.get_closest_marker("long"):
        yield
        return
    monkeypatch.setattr(accounts, "hasher", lambda: _Quick())
    yield
    accounts._nobody.cache_clear()


class _Quick:
    def hash(self, password: str) -> str:
        return f"hash of {password}"

    def verify(self, password_hash: str, password: str) -> bool:
        from argon2.exceptions import VerifyMismatchError

        if password_hash != self.hash(password):
            raise VerifyMismatchError
        return True


@pytest.fixture
def team(tmp_path):
    visitor = websites.client(tmp_path / "answers.db", team=True)
    for name in ("ann", "bob"):
        websites.enrolled(visitor, name, "annotator")
    return visitor


def tried(visitor, name="ann", password="a wrong password", **more) -> int:
    return visitor.post("/login", data={"name": name, "password": password}, **more).status_code


def number_of(visitor, name: str) -> int:
    from limner.annotate.store.people import by_name

    return by_name(visitor.app.state.site.store, name).id


# --- a stranger locks nobody out --------------------------------------------------------------------------------


def test_one_address_does_not_lock_out_another(team):
    stranger = browser(team, address="203.0.113.9")
    assert [tried(stranger) for _ in range(200)][10:] == [429] * 190
    victims = [browser(team, address=f"192.0.2.{n}") for n in range(20)]
    assert [tried(victim, password=PASSWORD) for victim in victims] == [303] * 20


def test_a_known_browser_is_not_locked_out_by_its_own_address(team):
    """Behind one address, as in an office: what tells the victim apart is that it has been here before."""
    victim = browser(team, address="192.0.2.1")
    assert tried(victim, password=PASSWORD) == 303
    victim.post("/logout")
    stranger = browser(team, address="192.0.2.1")
    assert {tried(stranger) for _ in range(200)} == {401, 429}
    assert tried(browser(team, address="192.0.2.1"), password=PASSWORD) == 429
    assert [tried(victim, password=PASSWORD) for _ in range(20)] == [303] * 20


def test_a_known_browser_is_not_locked_out_by_many_addresses(team):
    victim = browser(team, address="192.0.2.1")
    assert tried(victim, password=PASSWORD) == 303
    strangers = [browser(team, address=f"203.0.113.{n}") for n in range(30)]
    replies = [tried(stranger) for stranger in strangers for _ in range(10)]
    assert replies.count(401) == 50, "guesses from many addresses are counted by account too"
    assert tried(victim, password=PASSWORD) == 303


def test_a_browser_that_two_people_share_is_known_to_both(team):
    shared = browser(team, address="192.0.2.1")
    assert [tried(shared, name, PASSWORD) for name in ("ann", "bob")] == [303, 303]
    stranger = browser(team, address="192.0.2.1")
    assert {tried(stranger) for _ in range(20)} == {401, 429}
    assert [tried(shared, name, PASSWORD) for name in ("ann", "bob")] == [303, 303]


def test_another_case_of_a_name_brings_no_guesses(team):
    """An account named like the target but for its case would make a browser known to both."""
    from limner.annotate.store.people import make_invite

    store = team.app.state.site.store
    form = {"name": "ANN", "password": PASSWORD, "again": PASSWORD}
    thief = browser(team, address="203.0.113.9")
    reply = thief.post(f"/invite/{make_invite(store)}", data=form)
    assert reply.status_code == 400 and "already exists" in reply.text
    assert tried(thief, name="bob", password=PASSWORD) == 303
    names = ("ann", "ANN", "Ann", "ａnn")
    assert [tried(thief, name=names[n % 4]) for n in range(200)].count(401) == 10


@pytest.mark.parametrize("name", ["ANN", " Ann ", "ａｎｎ"])
def test_one_logs_in_with_the_name_in_any_case_or_form(team, name):
    victim = browser(team)
    assert tried(victim, name=name, password=PASSWORD) == 303
    assert victim.get("/account").status_code == 200
    assert {tried(browser(team)) for _ in range(20)} == {401, 429}
    assert tried(victim, name=name, password=PASSWORD) == 303, "the browser is known under every form of the name"


def test_a_new_browser_may_have_to_wait_and_a_link_lets_it_in(team):
    """Guesses from a dozen addresses: as the manual says, a new browser waits, and an admin's link needs no guess."""
    from limner.annotate.store.people import by_name, make_reset

    strangers = [browser(team, address=f"203.0.113.{n}") for n in range(12)]
    assert [tried(stranger) for stranger in strangers for _ in range(8)].count(401) == 50
    fresh = browser(team, address="192.0.2.1")
    reply = fresh.post("/login", data={"name": "ann", "password": PASSWORD})
    assert reply.status_code == 429 and "ask an admin for a link" in reply.text
    store = team.app.state.site.store
    link = f"/reset/{make_reset(store, by_name(store, 'ann').id)}"
    assert fresh.post(link, data={"password": PASSWORD + " 2", "again": PASSWORD + " 2"}).status_code == 303
    assert tried(fresh, password=PASSWORD + " 2") == 303


def test_a_known_browser_may_not_guess_either(team):
    known_browser = browser(team)
    assert tried(known_browser, password=PASSWORD) == 303
    assert [tried(known_browser) for _ in range(40)].count(401) == 10
    assert tried(known_browser, name="bob", password=PASSWORD) == 303, "known for one account says nothing of another"


@pytest.mark.parametrize("cookie", ["{}", "{}.y", "{}." + "0" * 64, "{}.", "é{}" * 50, "{}" * 5000])
def test_a_forged_mark_makes_no_browser_known(team, cookie):
    stranger = browser(team, address="203.0.113.9")
    marks = [
        f"limner_device_{number_of(team, 'ann')}={cookie.replace('{}', str(n))}".encode("latin-1") for n in range(40)
    ]
    assert [tried(stranger, headers={"cookie": mark}) for mark in marks].count(401) == 10


def test_a_mark_cannot_be_moved_to_another_browser_name(team):
    """Whoever has one good mark cannot make turns of it by changing what it stands for."""
    thief = browser(team, address="203.0.113.9")
    assert tried(thief, name="bob", password=PASSWORD) == 303
    cookie = f"limner_device_{number_of(team, 'bob')}"
    device, _, mark = thief.cookies[cookie].partition(".")
    marks = [f"{cookie}={device}{n}.{mark}" for n in range(40)]
    assert [tried(thief, name="bob", headers={"cookie": each}) for each in marks].count(401) == 10


def test_a_mark_is_good_for_its_account_alone(team):
    thief = browser(team, address="203.0.113.9")
    assert tried(thief, name="bob", password=PASSWORD) == 303
    assert [tried(thief, name="ann") for _ in range(40)].count(401) == 10
    bob = number_of(team, "bob")
    moved = f"limner_device_{number_of(team, 'ann')}={thief.cookies[f'limner_device_{bob}']}"
    second_visitor = browser(team, address="203.0.113.10")
    assert [tried(second_visitor, headers={"cookie": moved}) for _ in range(40)].count(401) == 10
    assert tried(second_visitor, password=PASSWORD, headers={"cookie": moved}) == 429


# --- right passwords cost nothing -------------------------------------------------------------------------------


def test_a_whole_team_logs_in_behind_one_address(team):
    for _ in range(50):
        assert tried(browser(team, address="192.0.2.1"), password=PASSWORD) == 303


def test_right_passwords_do_not_win_guesses(team):
    """Logging in oneself between two guesses must not give turns back that wrong ones took."""
    stranger = browser(team, address="203.0.113.9")
    guesses = 0
    for _ in range(100):
        guesses += tried(stranger, name="ann") == 401
        tried(stranger, name="bob", password=PASSWORD)
    assert guesses == 10


# --- one account, one count -------------------------------------------------------------------------------------


def test_ten_thousand_other_names_do_not_make_one_forgotten():
    clock = [0.0]
    throttle = Throttle(10, 30.0, clock=lambda: clock[0])
    assert [throttle.take("victim") for _ in range(10)] == [0.0] * 10
    for number in range(20_000):
        throttle.take(f"name {number}")
    assert throttle.take("victim") >= 30.0


def test_many_other_names_lock_nobody_out():
    """As many as a server can hash in the time in which counts empty: 300 s, 40 per second."""
    throttle = Throttle(10, 30.0, clock=lambda: 0.0)
    for number in range(12_000):
        throttle.take(f"name {number}")
    assert not any(throttle.take(f"victim {number}") for number in range(1000))


@pytest.mark.parametrize("start", [0.0, 12345.678901234, 1e9 / 3])
def test_all_attempts_of_a_burst_are_allowed_within_one_tick_of_the_clock(start):
    throttle = Throttle(50, 0.1, clock=lambda: start)
    assert [throttle.take("ann") == 0 for _ in range(60)] == [True] * 50 + [False] * 10


def test_what_is_remembered_does_not_grow():
    """A name for every password that a server can hash: 200 in a second, for an hour."""
    import tracemalloc

    clock = [0.0]
    throttle = Throttle(10, 30.0, clock=lambda: clock[0])
    sizes = []
    tracemalloc.start()
    for number in range(720_000):
        clock[0] += 0.005
        throttle.take(f"name {number}")
        if number % 72_000 == 71_999:
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert max(sizes) < 4_000_000 and max(sizes) == pytest.approx(min(sizes), rel=0.6)


@pytest.mark.parametrize("name", [" ann", "ann\t", "ann" + " " * 90, " " * 200 + "ann", "ANN", "ａｎｎ"], ids=repr)
def test_a_padded_or_dressed_up_name_has_no_count_of_its_own(team, name):
    strangers = [browser(team, address=f"203.0.113.{n}") for n in range(6)]
    assert [tried(stranger) for stranger in strangers for _ in range(10)].count(401) == 50
    assert tried(browser(team), name=name, password=PASSWORD) == 429


def test_a_name_is_not_cut_to_somebody_elses(team):
    assert tried(browser(team), name="ann" + " " * 77 + "x", password=PASSWORD) == 401


def test_one_customer_of_ipv6_is_one_address():
    turns = LoginTurns()
    for number in range(10):
        turns.take(f"name {number}", f"2001:db8::{number:x}")
    from starlette.exceptions import HTTPException

    with pytest.raises(HTTPException):
        turns.take("another", "2001:db8::ffff")
    turns.take("another", "2001:db8:0:1::1")


# --- behind a proxy ---------------------------------------------------------------------------------------------


def test_addresses_are_taken_from_a_configured_proxy(tmp_path):
    team = websites.client(tmp_path / "answers.db", team=True, proxies=["10.0.0.0/8"])
    websites.enrolled(team, "ann", "annotator")
    proxy = browser(team, address="10.0.0.1")
    forged = {"x-forwarded-for": "192.0.2.1, 203.0.113.9"}  # the proxy adds whom it saw; the rest is the client's
    assert {tried(proxy, headers=forged) for _ in range(40)} == {401, 429}
    assert tried(proxy, password=PASSWORD, headers={"x-forwarded-for": "192.0.2.1"}) == 303
    assert tried(browser(team, address="10.9.9.9"), password=PASSWORD, headers=forged) == 429


def test_nobody_else_is_believed(team):
    stranger = browser(team, address="203.0.113.9")
    replies = [tried(stranger, headers={"x-forwarded-for": f"192.0.2.{n}"}) for n in range(40)]
    assert replies.count(401) == 10


@pytest.mark.parametrize("bad", ["proxy.example.org", "*", "", "10.0.0.1/8", "999.1.1.1"])
def test_a_proxy_is_an_address(tmp_path, bad):
    from limner.core.errors import LimnerError

    with pytest.raises(LimnerError, match="--proxy"):
        websites.client(tmp_path / "answers.db", team=True, proxies=[bad])


# --- many at once -----------------------------------------------------------------------------------------------


def test_annotators_do_not_wait_for_logins(tmp_path, monkeypatch):
    """More logins than there are threads for pages, each held up in its hash: a page is made anyway."""
    from limner.web import accounts

    team = websites.client(websites.filled(tmp_path / "answers.db"), team=True)
    enrolled_visitor = websites.enrolled(team, "ann", "annotator")
    cookie = f"limner_session={enrolled_visitor.cookies['limner_session']}"
    may_go = threading.Event()
    monkeypatch.setattr(accounts, "fits", lambda kept, password: may_go.wait(60) and False)
    with websites.running(team.app) as address, ThreadPoolExecutor(80) as pool:
        team.app.state.site.turns.by_address = websites.endless()
        waiting = [pool.submit(sent, address, "POST", "/login", {"name": f"n{n}", "password": "x"}) for n in range(80)]
        try:
            held = team.app.state.site.apart
            while held._waiting < 80:
                threading.Event().wait(0.01)
            assert sent(address, "GET", "/judge", cookie=cookie) == 200
            assert not any(each.done() for each in waiting)
        finally:
            may_go.set()
        assert {each.result() for each in waiting} == {401}


def sent(address: str, method: str, path: str, form: dict | None = None, *, cookie: str = "") -> int:
    url = urlsplit(address)
    line = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    headers = {"Content-Type": "application/x-www-form-urlencoded", **({"Cookie": cookie} if cookie else {})}
    line.request(method, path, urlencode(form) if form else None, headers)
    reply = line.getresponse()
    reply.read()
    line.close()
    return reply.status


@pytest.mark.long
def test_300_people_come_in_at_once_and_annotators_lose_nothing(tmp_path):
    size = attack.Size()
    outcome, came = attack.logged_in(tmp_path, size, 300)
    assert came == 300
    assert outcome.stored.acknowledged == size.answers
    assert (outcome.stored.lost, outcome.stored.errors) == (0, [])


def test_too_many_who_wait_are_told_so(tmp_path, monkeypatch):
    from limner.web import accounts

    team = websites.client(tmp_path / "answers.db", team=True)
    site = team.app.state.site
    site.apart, site.turns.by_address = WorkerPool(places=1, queue=2), Throttle(1000, 6.0)
    may_go = threading.Event()
    monkeypatch.setattr(accounts, "fits", lambda kept, password: may_go.wait(60) and False)
    with websites.running(team.app) as address, ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(sent, address, "POST", "/login", {"name": f"n{n}", "password": "x"}) for n in range(3)]
        try:
            while site.apart._waiting < 3:
                threading.Event().wait(0.01)
            assert sent(address, "POST", "/login", {"name": "late", "password": "x"}) == 503
        finally:
            may_go.set()
        assert [each.result() for each in waiting] == [401] * 3
