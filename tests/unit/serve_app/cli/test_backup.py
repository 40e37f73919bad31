"""``greenwave backup`` and ``greenwave restore``."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from serve_app.cli.backup import copy, replace
from serve_app.cli.main import main
from serve_app.errors import CommandError
from serve_app.processes.process_tags import INSTANCE_TAG
from tests.unit.serve_app.cli.test_records import contents, filled


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("STORE_URL", raising=False)
    (tmp_path / "data").mkdir()
    filled(url(tmp_path / "data" / "greenwave.db"), range(4354437000, 4354437010))
    return tmp_path / "data" / "greenwave.db"


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def test_what_was_there_at_a_backup_is_there_after_its_restore(store: Path, tmp_path: Path) -> None:
    before = contents(url(store))
    assert main(["backup", str(tmp_path / "copy.db")]) == 0
    filled(url(store), range(4354438000, 4354438005))
    after = contents(url(store))
    assert main(["restore", str(tmp_path / "copy.db")]) == 0
    assert contents(url(store)) == before
    assert contents(url(store.with_name("greenwave.db.before"))) == after
    filled(url(store), range(4354438000, 4354438005))  # it can be written


def test_no_restore_overwrites_the_store_that_another_has_put_aside(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live = contents(url(store))
    assert main(["backup", str(tmp_path / "copy.db")]) == 0
    for kept in ("greenwave.db.before", "greenwave.db.before-2", "greenwave.db.before-3"):
        capsys.readouterr()
        assert main(["restore", str(tmp_path / "copy.db")]) == 0
        assert f"The store before is in {store.with_name(kept)}." in capsys.readouterr().err
        filled(url(store), range(4354439000, 4354439005))
    assert contents(url(store.with_name("greenwave.db.before"))) == live


def test_a_backup_is_one_moment_of_a_store_that_is_written(store: Path, tmp_path: Path) -> None:
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


def test_a_backup_is_for_its_owner_alone_and_takes_nobodys_place(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", str(tmp_path / "copy.db")]) == 0
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    assert main(["backup", str(tmp_path / "copy.db")]) == 1
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"x" * 4096])
def test_what_is_no_backup_changes_nothing(store: Path, tmp_path: Path, content: bytes) -> None:
    before = contents(url(store))
    (tmp_path / "bad.db").write_bytes(content)
    with pytest.raises(CommandError, match="Nothing was changed"):
        replace(store, tmp_path / "bad.db")
    assert contents(url(store)) == before


def test_nothing_is_restored_under_a_running_system(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", str(tmp_path / "copy.db")]) == 0
    program = "import sys; print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={INSTANCE_TAG: str(store.parent.resolve())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        assert main(["restore", str(tmp_path / "copy.db")]) == 1
        running.kill()
    assert "running" in capsys.readouterr().err


def test_a_redis_is_left_to_its_own_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STORE_URL", "redis://127.0.0.1:1")
    assert main(["backup", str(tmp_path / "copy.db")]) == 1
    assert "Redis" in capsys.readouterr().err
