import os
from pathlib import Path

import pytest

from models.atomic_write import atomic_write


def test_the_new_file_takes_the_old_ones_place_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["report.csv"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.writelines([b"new", "not bytes"])  # type: ignore[list-item]
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["report.csv"]


@pytest.mark.parametrize("name", ["", "."])
def test_a_folder_is_no_file_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IsADirectoryError, match="Is a directory"), atomic_write(Path(name)):
        pass
    assert os.listdir(tmp_path) == []


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    for path in (tmp_path / "missing" / "report.csv", tmp_path / "taken" / "report.csv"):
        with pytest.raises(OSError, match="directory") as refused, atomic_write(path):
            pass
        assert refused.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as other, atomic_write(tmp_path / "report.csv"):
        (tmp_path / "other").read_bytes()
    assert str(other.value.filename) == str(tmp_path / "other")


def test_a_private_file_is_never_readable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "records"
    with atomic_write(path, mode=0o600) as file:
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_a_killed_writer_left_behind_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    (tmp_path / "report.csv.part").write_bytes(b"half of a long file")
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["report.csv"]
