"""What happens when the SQLite file is locked, full, damaged, or of another release."""

import asyncio
import fcntl
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deployments.store import Document, Expected, Store, StoreUnavailable, open_store
from deployments.store.sqlite_worker import MIGRATIONS, SqliteWorker, connect

TABLE = "cards"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    opened = open_store(f"sqlite:///{path}")
    yield opened
    await opened.close()


async def test_a_locked_file_is_an_error_in_time_while_reads_go_on(path, store):
    await store.create(TABLE, Document("1", b"one", "i"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with asyncio.timeout(2):
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.create(TABLE, Document("2", b"two", "j"))
    async with asyncio.timeout(2):
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.change(TABLE, {"1": b"new"}, when=Expected("1", b"one"))
    assert await store.get(TABLE, "1") == b"one"
    write = asyncio.create_task(store.create(TABLE, Document("2", b"two", "j")))
    await asyncio.wait([write], timeout=0.2)
    assert not write.done(), "a short lock is waited for"
    other.execute("ROLLBACK")
    other.close()
    await write


@contextmanager
def stopped_writer(path: Path) -> Iterator[None]:
    """Hold the turn to write, like a replica that has been stopped in mid-write."""
    turn = os.open(path.with_name(f"{path.name}-turn"), os.O_RDWR)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield
    finally:
        os.close(turn)


async def test_writes_that_fail_are_not_made_later_stop_no_read_and_are_two_lines_in_the_log(
    path, store, caplog
):
    await store.create(TABLE, Document("1", b"one"))
    with stopped_writer(path):
        started = asyncio.get_running_loop().time()
        results = await asyncio.gather(
            *(store.create(TABLE, Document(str(n), b"late")) for n in range(2, 5)),
            store.change(TABLE, {"5": b"late"}, ["1"], when=Expected("1", b"one")),
            return_exceptions=True,
        )
        assert {type(result) for result in results} == {StoreUnavailable}
        assert asyncio.get_running_loop().time() - started < 2
        assert await store.get(TABLE, "1") == b"one"
    await store.create(TABLE, Document("9", b"nine"))
    assert {key async for key, _ in store.scan(TABLE)} == {"1", "9"}
    began, ended = caplog.messages
    assert began.startswith(f"The SQLite store of {path}, for writes, does not serve: ")
    assert "serves again after" in ended


async def test_closing_does_not_wait_for_ever_for_another_process(path, store):
    await store.create(TABLE, Document("1", b"one"))
    with stopped_writer(path):
        with pytest.raises(StoreUnavailable):
            await store.create(TABLE, Document("2", b"two"))
        async with asyncio.timeout(5):
            await store.close()


async def test_a_clock_set_back_keeps_no_counter_for_longer_than_its_lifetime(store, monkeypatch):
    now = 1_000_000.0
    monkeypatch.setattr("deployments.store.sqlite_store.time.time", lambda: now)
    assert [await store.increment("login", 60) for _ in range(3)] == [1, 2, 3]
    now -= 3600
    assert await store.increment("login", 60) == 4
    now += 59
    assert await store.increment("login", 60) == 5, "the window does not move with each step"
    now += 2
    assert await store.increment("login", 60) == 1


async def test_reads_that_wait_share_a_turn_of_the_thread_and_fail_alone(path):
    events = []
    worker = SqliteWorker(path, "for reads")

    async def read(statement):
        def execute(db):
            events.append("read")
            return db.execute(statement)

        try:
            return await worker.run(execute)
        finally:
            events.append("answer")

    statements = ["SELECT 1", "no SQL", "SELECT 1"]
    first, second, third = await asyncio.gather(*map(read, statements), return_exceptions=True)
    assert events == ["read"] * 3 + ["answer"] * 3
    assert isinstance(second, StoreUnavailable)
    assert {type(first), type(third)} == {sqlite3.Cursor}
    await worker.close()


async def test_a_defect_reaches_its_caller_and_the_thread_goes_on(path):
    worker = SqliteWorker(path, "for reads")
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda db: 1 / 0)
    assert await worker.run(lambda db: db.execute("SELECT 1").fetchone()) == (1,)
    await worker.close()


CHANGE_MUCH = """
import asyncio, sys
from deployments.store import Expected, StoreUnavailable, open_store

async def main():
    store = open_store("sqlite:///" + sys.argv[1])
    before = {"0": b"small", "1": b"small"}
    await store.change("cards", before, when=Expected("0", None))
    much = {str(n): b"x" * 700 for n in range(1, 2000)}
    try:
        await store.change("cards", much, ["0"], when=Expected("0", b"small"))
    except StoreUnavailable as error:
        assert {key: value async for key, value in store.scan("cards")} == before
        assert await store.change("cards", {}, ["1"], when=Expected("0", b"small"))
        sys.stdout.write(str(error))

asyncio.run(main())
"""


def test_a_full_disk_is_an_error_that_says_so_and_what_was_written_stays(path):
    limit = 1_000_000

    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [sys.executable, "-c", CHANGE_MUCH, str(path)],
        cwd=ROOT,
        preexec_fn=small_disk,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "sqlite: " in done.stdout
    assert any(reason in done.stdout for reason in ("full", "disk I/O error"))


async def test_a_file_that_is_no_database_is_an_error_and_is_left_alone(path, store):
    path.write_bytes(b"a letter to my aunt " * 100)
    with pytest.raises(StoreUnavailable, match="not a database"):
        await store.get(TABLE, "1")
    assert path.read_bytes() == b"a letter to my aunt " * 100


async def test_a_file_of_a_newer_release_is_refused_and_left_alone(path, store):
    connect(path).close()
    newer = sqlite3.connect(path)
    newer.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    newer.close()
    with pytest.raises(StoreUnavailable, match="newer release"):
        await store.create(TABLE, Document("1", b"one"))


def test_an_older_file_is_brought_forward_and_keeps_its_documents(path):
    old = connect(path)
    old.execute("INSERT INTO documents (collection, key, value) VALUES ('t', 'k', 'v')")
    old.close()
    later = (*MIGRATIONS, ("ALTER TABLE documents ADD COLUMN note TEXT",))
    new = connect(path, later)
    assert new.execute("SELECT key, note FROM documents").fetchall() == [("k", None)]
    assert new.execute("PRAGMA user_version").fetchone() == (len(later),)
    new.close()
    connect(path, later).close()


def test_a_failed_migration_changes_nothing(path):
    connect(path).close()
    broken = (*MIGRATIONS, ("CREATE TABLE extra (x)", "CREATE TABLE documents (x)"))
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        connect(path, broken)
    db = connect(path)
    assert db.execute("SELECT name FROM sqlite_master WHERE name = 'extra'").fetchall() == []
    db.close()


OPEN = """
import asyncio, sys
from deployments.store import Document, open_store

async def main():
    store = open_store("sqlite:///" + sys.argv[1])
    sys.stdin.readline()
    await store.create("cards", Document(sys.argv[2], b"x", sys.argv[2]))
    await store.close()

asyncio.run(main())
"""


def test_processes_that_make_the_file_at_once_all_succeed(tmp_path):
    path = tmp_path / "new" / "store.db"
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, str(path), str(n)], cwd=ROOT, stdin=subprocess.PIPE
        )
        for n in range(6)
    ]
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write(b"go\n")
        starter.stdin.flush()
    for starter in starters:
        starter.communicate()
    assert [starter.returncode for starter in starters] == [0] * 6
    db = connect(path)
    assert db.execute("SELECT count(*) FROM documents").fetchone() == (6,)
    db.close()


async def test_the_store_is_for_its_owner_alone(tmp_path):
    folder = tmp_path / "new" / "folder"
    umask = os.umask(0)
    try:
        store = open_store(f"sqlite:///{folder}/store.db")
        await store.create(TABLE, Document("1", b"one", "i"))
        modes = {path.name: path.stat().st_mode & 0o777 for path in [folder, *folder.iterdir()]}
    finally:
        os.umask(umask)
    await store.close()
    assert modes.pop("folder") == 0o700
    assert modes.keys() == {"store.db", "store.db-wal", "store.db-shm", "store.db-turn"}
    assert set(modes.values()) == {0o600}


def test_every_commit_is_synced_to_the_disk(path):
    db = connect(path)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    db.close()
