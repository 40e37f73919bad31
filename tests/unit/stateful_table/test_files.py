"""The files of a shard: where they are, who can open them, and what becomes of bad or full ones."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployments.stateful.errors import FolderError, TableFullError, UnavailableError
from deployments.stateful.files import (
    FOLDER_VARIABLE,
    FORMAT,
    FileForm,
    OwnedFiles,
    attach,
    base_folder,
)
from deployments.stateful.row import RowForm, name_of
from deployments.stateful.table import Operation, Table, Written
from tests.support.local_states import stepped

FORM = RowForm(np.dtype(("f4", 128)), np.dtype([("action", "u1"), ("confidence", "f4")]))
SPAWN = multiprocessing.get_context("spawn")
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounts, or becomes another user")
NOBODY, USER, MB = 65534, f"greenwave-{os.geteuid()}", 1 << 20


def open_files(base: Path, max_states: int = 1000) -> OwnedFiles:
    files = OwnedFiles(base / "app" / "shard", FORM, "tag", max_states)
    files.table.page.valid_until = float("inf")
    files.table.set_limit(max_states)
    return files


def names(n: int, first: int = 0) -> list[bytes]:
    return [name_of(f"run{i // 100}", f"J{i}") for i in range(first, first + n)]


def write(table: Table, some: list[bytes]) -> Written:
    return table.write(some, stepped(table.read(some)))


def fill(table: Table, size: int, first: int = 0) -> int:
    """Write new states until one is refused, and return how many there are."""
    written = Written(0)
    while written.why is None:
        written = write(table, names(size, first))
        first += size
    assert isinstance(written.why, TableFullError)
    return table.counts()[0]


class Replica:
    """Another process, which attaches to the table. A signal that ends it fails the test."""

    table: Table

    def __init__(self) -> None:
        self._process = ProcessPoolExecutor(1, SPAWN)

    def __enter__(self) -> Callable[..., Any]:
        return lambda function, *args: self._process.submit(function, *args).result()

    def __exit__(self, *exc_info: object) -> None:
        self._process.shutdown()


def attached(folder: Path, nonce: str) -> bool:
    table = attach(folder, nonce, FORM)
    if table is not None:
        Replica.table = table
    return table is not None


def written(some: list[bytes]) -> str:
    """Write rows in the replica, and return what became of it."""
    try:
        return repr(write(Replica.table, some).why)
    except UnavailableError as error:
        return str(error)


@pytest.fixture
def base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="greenwave-test-") as folder:
        yield Path(folder)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system in memory of 64 MB, as containers have it."""
    folder = tmp_path / "shm"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def take_all(folder: Path) -> Path:
    """Fill a file system, as another program can."""
    with (folder / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(4096))
    return folder / "ballast"


# Folders


@ROOT
def test_tables_are_in_memory_where_there_is_space_beside_them(small):
    assert base_folder(60 * MB, small) == small / USER
    assert (small / USER).stat().st_mode & 0o777 == 0o700
    table = small / USER / "app" / "shard" / "table"
    table.parent.mkdir(parents=True)
    table.write_bytes(bytes(40 * MB))
    assert base_folder(60 * MB, small) == small / USER


@ROOT
@pytest.mark.parametrize(
    ("options", "why"), [("rw", "has 64 MB free, and they may need 99 MB"), ("ro", "cannot be")]
)
def test_tables_are_on_disk_where_memory_cannot_have_them(options, why, small, tmp_path, caplog):
    subprocess.run(["mount", "-o", f"remount,{options}", small], check=True)
    folder = base_folder(99 * MB, small, {"XDG_STATE_HOME": str(tmp_path / "state")})
    assert folder == tmp_path / "state/greenwave/tables"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert f"on disk, where steps can wait for it, in {folder}: {small} {why}" in caplog.text


@pytest.mark.parametrize("memory", ["/missing", "/proc"])
def test_tables_are_in_the_temporary_folder_without_a_home(memory, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert base_folder(MB, Path(memory), {"HOME": "/dev/null"}) == tmp_path / USER / "tables"
    assert f"{memory} is not a file system in memory" in caplog.text


def test_a_variable_names_the_folder(tmp_path):
    assert base_folder(MB, environ={FOLDER_VARIABLE: str(tmp_path / "own")}) == tmp_path / "own"
    with pytest.raises(FolderError, match="No such file"):
        base_folder(MB, environ={FOLDER_VARIABLE: str(tmp_path / "missing" / "own")})


def link(folder: Path) -> None:
    folder.rename(folder.with_name("other"))
    folder.symlink_to("other")


def give_away(folder: Path) -> None:
    os.chown(folder, NOBODY, NOBODY)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda folder: folder.chmod(0o750), "Other users can open it. Run `chmod 700` on it"),
        (link, "This is a link or a file. Remove it"),
        pytest.param(give_away, "It belongs to the user 65534. Have it removed", marks=ROOT),
    ],
)
@pytest.mark.parametrize("level", [".", "app", "app/shard"])
def test_a_folder_that_another_user_may_change_is_refused(spoil, why, level, tmp_path):
    base = base_folder(MB, environ={FOLDER_VARIABLE: str(tmp_path / "base")})
    files = open_files(base)
    files.close()
    spoil(base / level)
    with pytest.raises(FolderError) as refused:
        open_files(base)
    assert refused.value.why == why
    assert not attached(files.folder, files.form.nonce)


# Homes and replicas


def own(base: Path) -> None:
    open_files(base)
    signal.pause()


def test_a_folder_has_one_home_and_the_next_one_follows_its_end(base):
    home = SPAWN.Process(target=own, args=(base,))
    home.start()
    while not (base / "app/shard/form.json").exists():
        time.sleep(0.01)
    with pytest.raises(FolderError, match=f"Process {home.pid} uses these hidden states"):
        open_files(base)
    home.kill()
    files = open_files(base)
    assert not files.is_new
    files.close()
    home.join()


def test_the_next_home_goes_on_with_the_table(base):
    files = open_files(base)
    assert files.is_new
    write(files.table, names(10))
    files.remember_term(7)
    with Replica() as call:
        assert call(attached, files.folder, files.form.nonce)
        files.close()
        assert call(written, names(10)) == "None"
        again = open_files(base, max_states=2_000_000)
        assert call(written, names(10)) == "None"
    assert not again.is_new
    assert again.form.map_size == (again.folder / "table").stat().st_size > files.form.map_size
    assert again.form == replace(files.form, term=7, map_size=again.form.map_size)
    assert again.table.read(names(10)).rows.steps(range(10)) == [3] * 10
    assert FileForm.read(again.folder) == again.form
    assert (again.folder / "form.json").stat().st_mode & 0o777 == 0o600
    again.delete()
    assert not again.folder.exists()


def test_a_replica_attaches_to_the_table_of_its_home_alone(base):
    files = open_files(base)
    folder, old = files.folder, files.form.nonce
    assert attach(folder, old, RowForm(FORM.state, np.dtype("u1"))) is None
    with Replica() as call:
        assert not call(attached, folder, "another")
        assert not call(attached, base / "app" / "missing", old)
        assert call(attached, folder, old)
        files.begin_anew()
        files.table.page.valid_until = float("inf")
        files.table.set_limit(10)
        assert "has lost its term" in call(written, names(10))
        assert not call(attached, folder, old)
        assert call(attached, folder, files.form.nonce)
        assert call(written, names(1)) == "None"
    assert files.is_new
    assert files.table.counts() == (1, 10)
    files.close()


# Bad files


def change(**values: object) -> Callable[[Path], object]:
    def write_form(folder: Path) -> None:
        form = json.loads((folder / "form.json").read_text())
        (folder / "form.json").write_text(json.dumps({**form, **values}))

    return write_form


def overwrite(folder: Path) -> None:
    with (folder / "table").open("r+b") as table:
        table.write(bytes(2 * 4096))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda folder: os.truncate(folder / "page", 0), "page was removed or cut short"),
        (lambda folder: (folder / "table-lock").unlink(), "table-lock was removed or cut short"),
        (overwrite, "LMDB refuses it"),
        (lambda folder: (folder / "form.json").unlink(), "form.json is damaged or of another"),
        (lambda folder: (folder / "form.json").write_text("{"), "form.json is damaged"),
        (change(format=FORMAT + 1), "form.json is damaged or of another version"),
        (change(later=1), "form.json is damaged or of another version"),
        (change(map_size="1"), "form.json is damaged or of another version"),
        (change(boot="another"), "the machine was started again"),
        (change(form="another"), "the model's states have another shape or data type"),
    ],
)
def test_files_that_are_not_good_are_removed(spoil, why, base, caplog):
    files = open_files(base)
    write(files.table, names(10))
    files.close()
    spoil(files.folder)
    assert not attached(files.folder, files.form.nonce)
    again = open_files(base)
    assert again.is_new
    assert again.form.nonce != files.form.nonce
    assert again.table.counts() == (0, 1000)
    assert f"are removed: {why}" in caplog.text
    again.close()


def cut(base: Path) -> None:
    """Cut the table at many lengths, and open it each time."""
    draw = random.Random(5)
    for length in [0, 1, 4095, 4096, 8192, *(draw.randrange(MB) for _ in range(50)), 1 << 30]:
        files = open_files(base)
        write(files.table, names(100))
        files.close()
        os.truncate(files.folder / "table", length)
        assert not attached(files.folder, files.form.nonce)
        again = open_files(base)
        assert again.is_new
        assert write(again.table, names(100)).number
        again.close()


def test_a_table_that_was_cut_anywhere_ends_no_process(base):
    with Replica() as call:
        call(cut, base)


# Full


@ROOT
def test_in_a_full_folder_the_states_that_exist_go_on(small):
    base = base_folder(32 * MB, small)
    files = open_files(base, max_states=100_000)
    table, draw = files.table, random.Random(1)
    fill(table, 512)
    table.keep_reserve()
    ballast = take_all(small)
    n = fill(table, 1, 100_000)
    for size in (1, 16, 512) * 20:
        some = [*draw.sample(names(5000), size), *names(3, 200_000)]
        came = write(table, some)
        assert (bool(came.number), set(came.refused)) == (True, {size, size + 1, size + 2})
    with pytest.raises(TableFullError):
        table.replace(Operation("import", "run"), {names(1)[0]: FORM.empty})
    assert table.counts()[0] == n
    files.remember_term(3)
    files.close()
    again = open_files(base, max_states=100_000)
    again.remember_term(40_000)
    assert (again.is_new, FileForm.read(again.folder)) == (False, replace(again.form, term=40_000))
    with Replica() as call:
        assert call(attached, again.folder, again.form.nonce)
        assert call(written, names(512)) == "None"
        assert "TableFullError" in call(written, names(1, 300_000))
        for run in range(10):
            again.table.replace(Operation("reset", f"run{run}"), {})
        assert call(written, names(10, 300_000)) == "None"
        ballast.unlink()
        assert call(written, names(512, 400_000)) == "None"
    again.close()


@ROOT
def test_in_a_full_folder_no_table_begins(small):
    base = base_folder(MB, small)
    take_all(small)
    with Replica() as call, pytest.raises(FolderError, match="No space left"):
        call(open_files, base)
