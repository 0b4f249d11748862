"""The store: nothing lost, nothing doubled, nobody over the replication, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sqlalchemy

import limner
from limner.annotate import store as stores
from limner.annotate.preference import Rivals, add_comparisons, votes
from limner.annotate.store import AlreadyFull, LeaseLost, NotAllowed, open_store
from limner.annotate.store.answers import answers, history, submit, undo
from limner.annotate.store.contents import (
    Listed,
    add_collection,
    add_pairs,
    add_pool,
    caption_text,
    counts,
    pairs,
    proposals,
)
from limner.annotate.store.exclusions import exclude, exclusions, lift
from limner.annotate.store.people import (
    add_annotator,
    annotators,
    by_name,
    close_session,
    folded_name,
    make_invite,
    open_session,
    read_invite,
    session_of,
    set_active,
    set_password_hash,
    set_role,
    use_invite,
)
from limner.annotate.store.studies import give_answer, next_question, study_progress
from limner.annotate.store.tasks import (
    Draft,
    TaskPair,
    add_tasks,
    assignment_of,
    give_back,
    lease,
    progress,
    progress_of,
    renew,
)
from limner.core.errors import LimnerError, UnknownName


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time

    def minutes(self, number: float) -> None:
        self.time += 60 * number


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(database, clock):
    with open_store(database, clock=clock) as opened:
        yield opened


def world(images=4, texts=3):
    pictures = limner.Items([f"i{n}" for n in range(images)], [f"picture {n}".encode() for n in range(images)])
    names = [f"i{n}t{m}" for n in range(images) for m in range(texts)]
    words = limner.Items(names, [f"caption {name}" for name in names], kind="text")
    pairs = limner.Judgements.from_pairs([(name[:2], name) for name in names])
    return limner.Collection("toy", pictures, words, pairs)


def filled(store, *, tasks=2, per_task=3, replication=1, gold=False):
    """Tasks of distinct real pairs, with controls if asked for."""
    size = tasks * per_task
    add_collection(store, world(images=size + 1, texts=1))
    drafts = []
    for number in range(tasks):
        real = [TaskPair(f"i{n}", f"i{size}t0") for n in range(number * per_task, (number + 1) * per_task)]
        controls = [
            TaskPair(f"i{number}", f"i{number}t0", "gold_pos"),
            TaskPair(f"i{number}", f"i{number + 1}t0", "gold_neg"),
        ]
        drafts.append(Draft((*real, *(controls if gold else ()))))
    return add_tasks(store, drafts, replication=replication)


def person(store, name="ada", **more):
    return add_annotator(store, name, **more).id


def say(store, annotator, item, grade=4, **more):
    return submit(store, annotator, item.id, key=more.pop("key", uuid.uuid4().hex), grade=grade, **more)


# --- opening ----------------------------------------------------------------------------------------------------


def test_a_store_is_made_once_and_opened_again(database):
    with open_store(database) as store:
        assert store.set("secret", "a", replace=False) == "a"
        assert store.set("secret", "b", replace=False) == "a"
    with open_store(database) as store:
        assert store.setting("secret") == "a"
        assert store.setting("nothing", 3) == 3


NEXT = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"


def upgrade():
    op.add_column("annotator", sa.Column("team", sa.Text(), nullable=False, server_default="one"))
"""


def test_a_later_migration_is_applied_with_all_answers_kept(database, tmp_path, monkeypatch):
    with open_store(database) as store:
        filled(store)
        say(store, person(store), lease(store, 1).items[0], 3, reasons=["grammar"], comment="blurred")
        before, judged = progress(store), answers(store)
    folder = tmp_path / "migrations"
    shutil.copytree(stores.MIGRATIONS, folder)
    (folder / "versions" / "v0002_teams.py").write_text(NEXT)
    monkeypatch.setattr(stores, "MIGRATIONS", folder)
    monkeypatch.setattr(stores, "VERSION", "0002")
    for _ in range(2):
        with open_store(database) as store:
            assert progress(store) == before and answers(store) == judged
            assert store.rows(sqlalchemy.text("SELECT name, team FROM annotator")) == [{"name": "ada", "team": "one"}]
            assert store.rows(sqlalchemy.text("SELECT version_num FROM alembic_version")) == [{"version_num": "0002"}]
    with open_store(database) as store:
        say(store, 1, lease(store, 1).items[1])
        assert len(answers(store)) == 2


def test_a_comment_is_kept_with_its_answer_and_revised_with_it(store):
    filled(store)
    ada = person(store)
    item = lease(store, ada).items[0]
    first = say(store, ada, item, 3, key="a", comment="  two boats,\n not one ")
    assert answers(store)[0].comment == lease(store, ada).items[0].comment == "two boats, not one"
    assert say(store, ada, item, 3, key="a", comment="two boats, not one").id == first.id  # sent again
    with pytest.raises(LimnerError, match="used for another answer"):
        say(store, ada, item, 3, key="a", comment="three")
    say(store, ada, item, 4)
    assert answers(store)[0].comment == ""
    undo(store, ada, item.id, key="u")
    assert lease(store, ada).items[0].comment == ""
    assert [each["comment"] for each in history(store)] == ["two boats, not one", None, None]
    say(store, ada, item, 4, comment="x" * 500)
    say(store, ada, item, 4, comment="a\x07\u202eb\0")
    assert answers(store)[0].comment == "a b"
    for bad in ("x" * 501, 3, None):
        with pytest.raises(LimnerError, match="comment"):
            say(store, ada, item, 4, comment=bad)


def test_two_programs_may_make_one_store_at_once(database):
    with ThreadPoolExecutor(6) as pool:
        stores = list(pool.map(lambda _: open_store(database), range(6)))
    for store in stores:
        store.close()
    with open_store(database) as store:
        assert counts(store)["images"] == 0


def test_a_store_of_a_later_limner_is_refused(database):
    with open_store(database) as store, store.writing() as connection:
        connection.execute(sqlalchemy.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(LimnerError, match="newer version of limner"):
        open_store(database)


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(LimnerError, match="no store"):
        open_store(tmp_path / "none.db", create=False)
    with pytest.raises(LimnerError, match="no folder"):
        open_store(tmp_path / "no" / "work.db")
    with pytest.raises(LimnerError, match="expected a file, or postgresql"):
        open_store("mysql://me:secret@host/db")
    (tmp_path / "text.db").write_text("no database at all, but long enough to be looked at " * 20)
    with pytest.raises(LimnerError, match="not a database"):
        open_store(tmp_path / "text.db")
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    with pytest.raises(LimnerError, match="contains other tables"):
        open_store(tmp_path / "other.db")


ODD = [
    "postgresql://ada:s3cret@127.0.0.1:9/none",
    "postgresql://ada@127.0.0.1:9/none?password=s3cret",
    "postgresql://127.0.0.1:9/none?user=ada&p%61ssword=s3cret&connect_timeout=1",
    "postgresql://127.0.0.1:9/none?user=ada&password=x@s3cret",
    "postgresql:ada:s3cret@127.0.0.1/none",
    "postgres://ada:s3cret@127.0.0.1:9/none",
    "postgresql://ada:x@s3cret@127.0.0.1:9/none",
    "postgresql://ada:x/s3cret@127.0.0.1:9/none",
    "postgresql://ada:x?s3cret@127.0.0.1:9/none",
    "postgresql://ada:s3cret@127.0.0.1:port/none",
    "postgresql://ada:s3cret@[::1/none",
    "mysql://ada:s3cret@host/name",
    "host=127.0.0.1 user=ada password=s3cret",
    "host=127.0.0.1 user=ada password = 'x s3cret'",
]


@pytest.mark.parametrize("odd", ODD)
def test_a_password_is_never_shown(odd, capsys):
    from typer.testing import CliRunner

    from limner.cli import app

    with pytest.raises(LimnerError) as refused:
        open_store(odd, create=False)
    assert "s3cret" not in str(refused.value)
    for arguments in (["annotate", "status", odd], ["serve", "scenes", "--port", "0", "--store", odd]):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code in (2, 3), done.output
        assert "s3cret" not in done.output


def test_an_open_store_shows_no_password(postgres):
    name = f"t{uuid.uuid4().hex}"
    postgres.psql(f"CREATE DATABASE {name};")
    database = postgres.get_uri(database=name)
    assert "?" in database, "the address of the test server has options: they are what is tested"
    with open_store(f"{database}&password=s3cret") as store:
        assert "s3cret" not in store.location
        assert "s3cret" not in repr(store)
        assert "s3cret" not in repr(store.engine)


# --- rights -----------------------------------------------------------------------------------------------------


def rights(path):
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.glob(f"{path.name}*")}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077], ids=oct)
def test_a_store_is_for_its_owner_alone(tmp_path, umask):
    before = os.umask(umask)
    try:
        with open_store(tmp_path / "work.db") as store:
            filled(store)
            modes = rights(tmp_path / "work.db")
    finally:
        os.umask(before)
    assert modes == {"work.db": 0o600, "work.db-wal": 0o600, "work.db-shm": 0o600}


def test_a_store_that_everybody_could_read_is_closed_to_them(tmp_path):
    """As older versions made it, with what SQLite kept beside it when it was killed."""
    path = tmp_path / "work.db"
    with open_store(path) as store:
        filled(store)
        for name in rights(path):
            (tmp_path / name).chmod(0o644)
        with open_store(path):
            assert set(rights(path).values()) == {0o600}


def test_rights_that_somebody_chose_stay(tmp_path):
    open_store(tmp_path / "work.db").close()
    (tmp_path / "work.db").chmod(0o660)
    with open_store(tmp_path / "work.db") as store:
        filled(store)
        assert set(rights(tmp_path / "work.db").values()) == {0o660}


def test_sqlite_is_durable_and_checked(tmp_path):
    with open_store(tmp_path / "work.db") as store, store.reading() as connection:
        values = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
        assert values == ["wal", 2]
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_store_that_another_program_keeps_is_told(tmp_path, monkeypatch):
    from limner.annotate import store as module

    monkeypatch.setattr(module, "BUSY", 0.2)
    with open_store(tmp_path / "work.db") as store, sqlite3.connect(tmp_path / "work.db") as second_connection:
        second_connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(LimnerError, match="the store is busy"):
            store.set("a", 1)
        second_connection.rollback()
        assert store.set("a", 1) == 1


def test_who_waits_is_let_in_in_order():
    from limner.annotate.store import _Queue

    queue, order, waiting = _Queue(1), [], []

    def enter(number):
        with queue:
            order.append(number)

    with queue:
        for number in range(8):
            waiting.append(threading.Thread(target=enter, args=(number,)))
            waiting[-1].start()
            while len(queue._waiting) <= number:
                pass
    for thread in waiting:
        thread.join()
    assert order == list(range(8))


# --- contents ---------------------------------------------------------------------------------------------------


def test_a_collection_is_added_once_and_changed_contents_are_refused(store):
    toy = world()
    assert add_collection(store, toy, spec="toy.csv") == {"images": 4, "captions": 12}
    assert add_collection(store, toy) == {"images": 0, "captions": 0}
    assert caption_text(store, "i1t2") == "caption i1t2"
    changed = limner.Items(["i0"], [b"another picture"])
    changed_collection = limner.Collection(
        "toy", changed, toy.texts[:1], limner.Judgements.from_pairs([("i0", "i0t0")])
    )
    with pytest.raises(LimnerError, match="different contents"):
        add_collection(store, changed_collection)


def test_proposals_keep_rank_score_and_direction(store):
    toy = world(images=3, texts=1)
    add_collection(store, toy)
    scores = limner.Scores.from_matrix(np.array([[3.0, 2, 1], [1, 3, 2], [1, 2, 3]]), toy.images.ids, toy.texts.ids)
    assert add_pool(store, [Listed("eyes", "i2t", scores.top(2))]) == (6, 0)
    assert add_pool(store, [Listed("eyes", "t2i", scores.T.top(2), 1)]) == (3, 0)
    first = proposals(store)[0]
    assert (first.system, first.direction, first.image, first.caption) == ("eyes", "i2t", "i0", "i0t0")
    assert (first.rank, first.score, first.turn) == (1, 3.0, 1)
    assert [p.rank for p in proposals(store, depth=1)] == [1] * 6
    assert add_pool(store, [Listed("eyes", "i2t", scores.top(1))]) == (0, 0)
    with pytest.raises(LimnerError, match="proposed other i2t pairs in round 1"):
        add_pool(store, [Listed("eyes", "i2t", scores.restrict(candidates=toy.texts.ids[1:]).top(2))])
    assert add_pairs(store, [("i0", "i0t0"), ("i0", "i1t0"), ("i0", "i0t0")]) == 2
    assert add_pairs(store, [("i0", "i0t0")]) == 0
    assert [(p.image, p.caption, p.asked) for p in pairs(store)] == [("i0", "i0t0", False), ("i0", "i1t0", False)]


def test_a_pair_is_asked_by_one_task_only(store):
    filled(store)
    with pytest.raises(LimnerError, match="already"):
        add_tasks(store, [Draft((TaskPair("i0", "i6t0"),))])
    assert counts(store)["tasks"] == 2  # the refused one left nothing behind


# --- people -----------------------------------------------------------------------------------------------------


def test_an_invitation_is_good_once_and_for_a_time(store, clock):
    token = make_invite(store, role="reviewer", hours=1)
    assert read_invite(store, token) == "reviewer"
    account = use_invite(store, token, "grace", password_hash="hash")
    assert (account.role, by_name(store, "grace")) == ("reviewer", account)
    for invite in (token, "made up"):
        with pytest.raises(NotAllowed, match="invitation"):
            use_invite(store, invite, "eve", password_hash="hash")
    late = make_invite(store, hours=1)
    clock.minutes(61)
    with pytest.raises(NotAllowed):
        read_invite(store, late)


def test_sessions_end(store, clock):
    ada = person(store)
    token = open_session(store, ada, hours=1)
    assert session_of(store, token).name == "ada"
    assert session_of(store, "forged") is None
    close_session(store, token)
    assert session_of(store, token) is None
    token = open_session(store, ada, hours=1)
    set_password_hash(store, ada, "new")
    assert session_of(store, token) is None
    token = open_session(store, ada, hours=1)
    clock.minutes(61)
    assert session_of(store, token) is None


def test_the_last_admin_stays_and_names_are_unique(store):
    ada = person(store, "ada", role="admin", password_hash="x")
    person(store, "grace", password_hash="x")
    for change in (lambda: set_role(store, ada, "annotator"), lambda: set_active(store, ada, False)):
        with pytest.raises(NotAllowed, match="last admin"):
            change()
    with pytest.raises(LimnerError, match="already"):
        add_annotator(store, " ada ")
    assert add_annotator(store, "ada", existing=True).id == ada
    assert [a.role for a in annotators(store)] == ["admin", "annotator"]
    for bad in ("", "  ", "a\nb", "x" * 81):
        with pytest.raises(LimnerError, match="printable"):
            add_annotator(store, bad)
    with pytest.raises(UnknownName):
        add_annotator(store, "eve", role="root")


@pytest.mark.parametrize("spelling", [" ada", "ADA", "ａｄａ", "Ａda\t"], ids=repr)
def test_a_name_of_another_case_or_form_is_the_same_name(store, spelling):
    ada = add_annotator(store, "Ada")
    assert by_name(store, spelling) == add_annotator(store, spelling, existing=True) == ada
    with pytest.raises(LimnerError, match="'Ada' already exists: names that differ only in case or form are one"):
        add_annotator(store, spelling)
    with pytest.raises(LimnerError, match="'Ada' already exists"):
        use_invite(store, make_invite(store), spelling, password_hash="x")
    assert [each.name for each in annotators(store)] == ["Ada"]


def test_the_database_itself_keeps_names_apart(store):
    from limner.annotate.store.schema import annotator

    person(store, "Ada")
    row = {"name": "ADA", "folded": folded_name("ADA"), "role": "annotator", "active": True, "added": 0}
    with pytest.raises(sqlalchemy.exc.IntegrityError), store.writing() as connection:
        connection.execute(annotator.insert().values(**row))


def test_folding_a_folded_name_changes_nothing():
    names = map(chr, range(sys.maxunicode + 1))
    assert all(folded_name(folded_name(name)) == folded_name(name) for name in names)
    assert len({folded_name(name) for name in ("Straße", "STRASSE", "strasse")}) == 1
    assert len({folded_name(name) for name in ("Zoë", "Zoe\u0308", "ZOË")}) == 1
    assert len({folded_name(name) for name in ("ada", "ada b", "adа")}) == 3  # the last one is Cyrillic


# --- leases -----------------------------------------------------------------------------------------------------


def test_a_task_goes_to_as_many_people_as_it_asks_for(store):
    first, second = filled(store, replication=2)
    people = [person(store, name) for name in "abcde"]
    leases = [lease(store, annotator) for annotator in people]
    assert [h and h.task for h in leases] == [first, first, second, second, None]
    assert lease(store, people[0]).id == leases[0].id  # the one already held comes back


def test_what_the_annotator_sees_does_not_tell_controls(store):
    filled(store, gold=True)
    assignment = lease(store, person(store))
    assert len(assignment.items) == 5
    assert not any("role" in vars(item) or "gold" in repr(item) for item in assignment.items)


def test_a_lease_runs_out_and_the_rest_goes_to_another(store, clock):
    filled(store, tasks=1, gold=True)
    ada, bob, eve = (person(store, name) for name in ("ada", "bob", "eve"))
    of_ada = lease(store, ada, minutes=10)
    say(store, ada, of_ada.items[0], minutes=10)
    assert lease(store, bob) is None
    clock.minutes(11)
    of_bob = lease(store, bob, minutes=10)
    assert [item.position for item in of_bob.items] == [1, 2, 3, 4]  # the answer stays; both are asked the controls
    with pytest.raises(LeaseLost):
        say(store, ada, of_ada.items[1])
    with pytest.raises(AlreadyFull):
        say(store, bob, of_ada.items[0])
    assert lease(store, eve) is None
    for item in of_bob.items:
        last = say(store, bob, item)
    assert last.finished
    assert progress(store) == {"tasks": 1, "done": 1, "held": 0, "answers": 3, "asked": 3, "controls": 2, "kept": 5}
    assert lease(store, ada) is None


def test_a_late_answer_is_taken_where_nobody_came(store, clock):
    filled(store, tasks=1)
    ada = person(store)
    assignment = lease(store, ada, minutes=10)
    clock.minutes(60)
    assert say(store, ada, assignment.items[0]).revision == 1
    assert lease(store, person(store, "bob")) is None  # the answer renewed the lease


def test_renewing_and_giving_back(store, clock):
    filled(store, tasks=1)
    ada, bob = person(store), person(store, "bob")
    assignment = lease(store, ada, minutes=10)
    clock.minutes(9)
    renew(store, ada, assignment.id, minutes=10)
    clock.minutes(9)
    assert lease(store, bob) is None
    for call in (renew, give_back):
        with pytest.raises(NotAllowed):
            call(store, bob, assignment.id)
    give_back(store, ada, assignment.id)
    assert lease(store, bob).task == assignment.task
    with pytest.raises(NotAllowed):
        renew(store, ada, assignment.id)
    with pytest.raises(NotAllowed):
        assignment_of(store, bob, assignment.id)


def test_who_is_set_aside_gets_nothing(store):
    filled(store)
    ada, bob = person(store), person(store, "bob")
    set_active(store, ada, False)
    exclude(store, "annotator", "bob", reason="fails controls")
    for annotator in (ada, bob):
        with pytest.raises(NotAllowed, match="is excluded"):
            lease(store, annotator)


# --- answers ----------------------------------------------------------------------------------------------------


def test_sending_an_answer_again_changes_nothing(store):
    filled(store)
    ada = person(store)
    item = lease(store, ada).items[0]
    first = say(store, ada, item, 3, key="k", reasons=["wrong-colour"], milliseconds=700)
    repeated = say(store, ada, item, 3, key="k", reasons=["wrong-colour"], milliseconds=700)
    assert (repeated.id, repeated.revision, repeated.repeated, first.repeated) == (first.id, 1, True, False)
    with pytest.raises(LimnerError, match="key"):
        say(store, ada, item, 4, key="k")
    with pytest.raises(LimnerError, match="key"):
        say(store, ada, lease(store, ada).items[1], 3, key="k", reasons=["wrong-colour"])
    assert len(history(store)) == 1


def test_answers_are_appended_and_the_last_one_holds(store):
    filled(store, tasks=1)
    ada = person(store)
    items = lease(store, ada).items
    say(store, ada, items[0], 2, reasons=["not-in-image", "wrong-age"])
    say(store, ada, items[0], 4)
    (answer,) = answers(store)
    assert (answer.grade, answer.revision, answer.reasons, answer.annotator) == (4, 2, (), "ada")
    undo(store, ada, items[0].id, key="u")
    assert answers(store) == []
    assert lease(store, ada).items[0].grade is None
    assert [row["grade"] for row in history(store, item_id=items[0].id)] == [2, 4, None]
    with pytest.raises(LimnerError, match="no answer to undo"):
        undo(store, ada, items[0].id, key="u2")


def test_undoing_the_last_answer_opens_the_task_again(store):
    filled(store, tasks=1)
    ada = person(store)
    assignment = lease(store, ada)
    for item in assignment.items:
        last = say(store, ada, item)
    assert last.finished and lease(store, ada) is None
    assert not undo(store, ada, assignment.items[2].id, key="u").finished
    assert progress(store)["done"] == 0
    assert lease(store, person(store, "bob")) is None  # it is still ada's
    assert lease(store, ada).id == assignment.id
    assert say(store, ada, assignment.items[2], 1).finished
    assert progress_of(store, ada) == {"finished": 1, "answers": 3, "free": 0}


@pytest.mark.parametrize(
    "bad",
    [{"grade": 0}, {"grade": 5}, {"grade": True}, {"grade": "4"}, {"grade": 4, "reasons": ["grammar"]},
     {"grade": 3, "reasons": ["'; DROP TABLE judgement; --"]}, {"grade": 4, "key": ""}, {"grade": 4, "key": "k" * 101},
     {"grade": 4, "milliseconds": -1}],
)  # fmt: skip
def test_bad_answers_are_refused_and_leave_nothing(tmp_path, bad):
    with open_store(tmp_path / "work.db") as store:
        filled(store)
        ada = person(store)
        item = lease(store, ada).items[0]
        with pytest.raises(LimnerError):
            submit(store, ada, item.id, **{"key": "k", **bad})
        assert history(store) == []


def test_only_the_holder_answers(store):
    filled(store, tasks=1)
    item = lease(store, person(store)).items[0]
    with pytest.raises(NotAllowed, match="never assigned to you"):
        say(store, person(store, "bob"), item)
    with pytest.raises(LimnerError, match="no pair"):
        submit(store, 1, 999_999, key="k", grade=4)


def test_one_key_serves_one_answer_whoever_sends_it(store):
    filled(store, tasks=2)
    ada, bob = person(store), person(store, "bob")
    say(store, ada, lease(store, ada).items[0], key="k")
    with pytest.raises(LimnerError, match="key was used for another answer"):
        say(store, bob, lease(store, bob).items[0], key="k")
    assert len(history(store)) == 1


def test_two_clicks_at_once_give_one_task(store):
    filled(store, tasks=6)
    ada = person(store)
    with ThreadPoolExecutor(6) as pool:
        leases = list(pool.map(lambda _: lease(store, ada), range(6)))
    assert len({h.id for h in leases}) == 1


def test_what_the_store_needs_is_named(tmp_path):
    code = "import sys; sys.modules['sqlalchemy'] = None; from limner.cli import app; app()"
    command = [sys.executable, "-c", code, "annotate", "status", str(tmp_path / "work.db")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr.endswith("pip install 'limner[web]'\n") and "sqlalchemy" in done.stderr


# --- taking out -------------------------------------------------------------------------------------------------


def test_a_rejected_task_is_asked_again_and_cannot_be_counted_twice(store):
    filled(store, tasks=1)
    ada, bob = person(store), person(store, "bob")
    assignment = lease(store, ada)
    for item in assignment.items:
        say(store, ada, item)
    number = exclude(store, "assignment", assignment.id, reason="wrong on both controls", by=bob)
    assert exclude(store, "assignment", assignment.id, reason="again") == number
    assert (answers(store), len(answers(store, counted=False))) == ([], 3)
    with pytest.raises(NotAllowed):
        say(store, ada, assignment.items[0])
    assert lease(store, ada) is None  # not the same task again
    of_bob = lease(store, bob)
    with pytest.raises(LimnerError, match="too many answers"):
        lift(store, number)
    give_back(store, bob, of_bob.id)
    lift(store, number)
    assert (len(answers(store)), exclusions(store), progress(store)["done"]) == (3, [], 1)
    assert exclusions(store, lifted=True)[0].by == "bob"


def test_a_caption_that_is_taken_out_is_not_asked_and_not_counted(store):
    filled(store, tasks=1)
    ada = person(store)
    assignment = lease(store, ada)
    say(store, ada, assignment.items[0])
    exclude(store, "image", assignment.items[0].image, reason="a duplicate")
    exclude(store, "pair", answers(store, counted=False)[0].pair, reason="too")
    exclude(store, "image", assignment.items[1].image, reason="broken")
    assert answers(store) == []
    assert [item.id for item in lease(store, ada).items] == [assignment.items[2].id]
    with pytest.raises(AlreadyFull, match="excluded"):
        say(store, ada, assignment.items[1])
    assert say(store, ada, assignment.items[2]).finished
    assert progress(store)["done"] == 1
    with pytest.raises(LimnerError, match="reason"):
        exclude(store, "image", "i0", reason=" ")
    with pytest.raises(LimnerError, match="no caption"):
        exclude(store, "caption", "none", reason="x")


# --- preferences ------------------------------------------------------------------------------------------------


def test_votes_are_counted_once_and_never_beyond_the_replication(store):
    rivals = [Rivals(f"q{n}", "A", "B", ("x", "y"), ("y", "x")) for n in range(4)]
    assert add_comparisons(store, rivals, people=2, seed=3) == 4
    people = [person(store, name) for name in "abc"]
    for annotator in people:
        while (question := next_question(store, annotator)) is not None:
            assert "A" not in repr(question) and "B" not in repr(question)
            assert give_answer(
                store, annotator, question.id, key=f"{annotator}-{question.id}", answer={"choice": "left"}
            )
            assert not give_answer(
                store, annotator, question.id, key=f"{annotator}-{question.id}", answer={"choice": "left"}
            )
            with pytest.raises(AlreadyFull):
                give_answer(
                    store, annotator, question.id, key=f"{annotator}-{question.id}-more", answer={"choice": "right"}
                )
    assert study_progress(store) == {"questions": 4, "answers": 8, "asked": 8}
    assert {vote.left for vote in votes(store)} == {"A", "B"}  # sides are drawn
    with pytest.raises(UnknownName):
        give_answer(store, people[0], 1, key="k", answer={"choice": "both"})
    assert add_comparisons(store, rivals, people=2, seed=3) == 0


# --- many at once -----------------------------------------------------------------------------------------------


def test_many_annotators_at_once_lose_and_double_nothing(database):
    """Threads that lease, answer, send again, and sometimes let their lease run out."""
    with open_store(database) as store:
        filled(store, tasks=12, per_task=4, replication=2, gold=True)
        people = [person(store, f"p{n}") for n in range(12)]
        sent, over, lock = set(), [], threading.Lock()

        def work(annotator):
            for step in range(100):
                assignment = lease(store, annotator, minutes=0.002 if step % 5 == 4 else 5)
                if assignment is None:
                    return
                holders = sum(row["n"] for row in store.rows(_holding(assignment.task, store.timestamp())))
                with lock:
                    over.extend([assignment.task] if holders > 2 else [])
                for item in assignment.items:
                    key = f"{annotator}-{item.id}-{step}"
                    try:
                        one, two = (submit(store, annotator, item.id, key=key, grade=4, minutes=5) for _ in "ab")
                    except (AlreadyFull, LeaseLost):
                        continue
                    assert one.id == two.id
                    with lock:
                        sent.add(key)

        with ThreadPoolExecutor(12) as pool:
            list(pool.map(work, people))
        stored_keys = [row["client_key"] for row in history(store)]
        assert (sorted(stored_keys), over) == (sorted(sent), [])
        per_pair = {}
        for answer in answers(store):
            if answer.role == "real":
                per_pair.setdefault(answer.item, []).append(answer.annotator)
        assert len(per_pair) == 48
        assert {len(names) for names in per_pair.values()} == {len(set(names)) for names in per_pair.values()} == {2}
        assert progress(store)["done"] == 12


def _holding(task, time):
    from limner.annotate.store.schema import assignment, sa

    running = sa.or_(assignment.c.finished.is_not(None), assignment.c.expires > time)
    return sa.select(sa.func.count().label("n")).select_from(assignment).where(assignment.c.task_id == task, running)


def test_an_acknowledged_answer_survives_the_death_of_its_process(tmp_path):
    """A process says each answer it has stored, and is killed in the middle; all it said is there."""
    path = tmp_path / "work.db"
    with open_store(path) as store:
        filled(store, tasks=1, per_task=60)
        person(store)
    code = (
        "import sys; from limner.annotate.store import open_store; from limner.annotate.store.tasks import lease;"
        "from limner.annotate.store.answers import submit\n"
        "with open_store(sys.argv[1]) as store:\n"
        "    for item in lease(store, 1).items:\n"
        "        submit(store, 1, item.id, key=f'k{item.id}', grade=4); print(f'k{item.id}', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    confirmed = [process.stdout.readline().strip() for _ in range(20)]
    process.kill()
    confirmed += process.communicate()[0].split()
    shutil.copytree(tmp_path, tmp_path.parent / "copy")  # what a fresh machine would find on the disk
    with open_store(tmp_path.parent / "copy" / "work.db") as store:
        stored_keys = [row["client_key"] for row in history(store)]
    assert set(confirmed) <= set(stored_keys) and len(set(stored_keys)) == len(stored_keys)
