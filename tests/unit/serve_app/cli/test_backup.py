"""``greenwave store backup`` and ``greenwave store restore``."""

import contextlib
import sqlite3
import threading

import pytest

from deployments.store.sqlite_worker import connect
from serve_app.cli.store import copy, replace
from serve_app.errors import CommandError
from tests.unit.serve_app.cli.test_records import contents, fill


@pytest.fixture
def store(data_dir):
    data_dir.mkdir()
    fill(data_dir / "greenwave.db", range(4354437000, 4354437010))
    return data_dir / "greenwave.db"


@pytest.fixture
def backup(store, greenwave, tmp_path):
    """Back the store up; return the file."""
    assert greenwave("store", "backup", str(tmp_path / "copy.db")).code == 0
    return tmp_path / "copy.db"


def test_no_restore_overwrites_the_store_that_another_has_kept(store, backup, greenwave):
    before = contents(store)
    fill(store, range(4354438000, 4354438005))
    live = contents(store)
    for kept in ("greenwave.db.before", "greenwave.db.before-2", "greenwave.db.before-3"):
        restored = greenwave("store", "restore", str(backup))
        assert restored.code == 0
        assert contents(store) == before
        assert f"The store before is in {store.with_name(kept)}." in restored.err
        fill(store, range(4354439000, 4354439005))
    assert contents(store.with_name("greenwave.db.before")) == live


def test_a_backup_is_a_snapshot_of_a_store_that_is_written(store, tmp_path):
    stop = threading.Event()

    def write() -> None:
        with sqlite3.connect(store, timeout=10, isolation_level=None) as connection:
            for n in range(100_000):
                if stop.is_set():
                    return
                connection.execute("BEGIN IMMEDIATE")
                for side in ("left", "right"):
                    connection.execute(
                        "INSERT OR REPLACE INTO documents VALUES ('pair', ?, ?, NULL)",
                        (side, str(n).encode()),
                    )
                connection.execute("COMMIT")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(10):
            copy(store, tmp_path / f"{number}.db")
    finally:
        stop.set()
        writer.join()
    for number in range(10):
        with sqlite3.connect(tmp_path / f"{number}.db") as connection:
            pair = connection.execute("SELECT value FROM documents WHERE collection = 'pair'")
            assert len({value for (value,) in pair}) <= 1


def test_a_backup_is_private_and_replaces_no_file(backup, refuse):
    assert backup.stat().st_mode & 0o777 == 0o600
    refuse(f"store backup {backup}", "exists already")


@pytest.mark.parametrize("content", [None, b"", b"no database", b"SQLite format 3\0" + b"x" * 4096])
def test_a_file_that_is_not_a_backup_changes_nothing(store, tmp_path, content):
    before = contents(store)
    if content is not None:
        (tmp_path / "bad.db").write_bytes(content)
    with pytest.raises(CommandError, match="Nothing was changed"):
        replace(store, tmp_path / "bad.db")
    assert contents(store) == before


def test_a_backup_beside_which_nothing_can_be_written_is_restored(store, backup, greenwave):
    with contextlib.closing(sqlite3.connect(backup)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # as in a file that was copied
    before = contents(store)
    backup.with_name("copy.db-shm").mkdir()  # where SQLite would write, root included
    restored = greenwave("store", "restore", str(backup))
    assert restored.code == 0, restored.err
    assert contents(store) == before


def test_a_store_that_was_copied_with_its_log_is_restored_with_its_last_writes(
    store, greenwave, tmp_path
):
    with contextlib.closing(connect(store)):  # keeps the log
        fill(store, range(4354438000, 4354438005))
        for suffix in ("", "-wal"):
            name = store.name + suffix
            (tmp_path / name).write_bytes(store.with_name(name).read_bytes())
    last = contents(store)
    fill(store, range(4354439000, 4354439005))
    restored = greenwave("store", "restore", str(tmp_path / store.name))
    assert restored.code == 0, restored.err
    assert contents(store) == last


def test_nothing_is_restored_while_the_system_runs(store, backup, start_process, refuse):
    start_process(store.parent)
    refuse(f"store restore {backup}", "running")


def test_nothing_is_restored_while_a_process_of_another_folder_uses_the_store(
    store, backup, greenwave, refuse
):
    fill(store, range(4354438000, 4354438005))
    before = contents(store)
    with contextlib.closing(connect(store)):
        refuse(f"store restore {backup}", f"A process uses {store}.")
    assert contents(store) == before
    assert not store.with_name("greenwave.db.restored").exists()


def test_a_damaged_store_is_replaced_and_kept_with_its_log(store, backup, greenwave):
    before = contents(store)
    store.write_bytes(b"damaged" * 1000)
    store.with_name("greenwave.db-wal").mkdir()  # SQLite cannot open a directory
    restored = greenwave("store", "restore", str(backup))
    assert restored.code == 0, restored.err
    assert contents(store) == before
    assert store.with_name("greenwave.db.before").read_bytes() == b"damaged" * 1000
    assert store.with_name("greenwave.db.before-wal").is_dir()
    assert not store.with_name("greenwave.db.restored").exists()


def test_a_redis_has_its_own_backups(tmp_path, monkeypatch, refuse):
    monkeypatch.setenv("STORE_URL", "redis://127.0.0.1:1")
    refuse(f"store backup {tmp_path / 'copy.db'}", "Redis")
