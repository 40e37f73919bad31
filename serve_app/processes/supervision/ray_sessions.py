"""The folders that Ray leaves behind, one for each start, with its logs."""

from __future__ import annotations

import shutil
from pathlib import Path

KEPT = 3


class Sessions:
    """The folders of one instance: another Ray of this machine may have its own beside them.

    Args:
        note: file of their paths, oldest first.
        temp_dir: Ray's.
    """

    def __init__(self, note: Path, temp_dir: Path) -> None:
        self._note = note
        self._temp_dir = temp_dir

    def add(self, head: int) -> None:
        """Note the folder of the Ray whose head has this process id, which ends its name."""
        folders = self._folders()
        found = [str(path) for path in self._temp_dir.glob(f"session_*_{head}")]
        self._write([*(each for each in folders if each not in found), *found])

    def tidy(self) -> None:
        """Remove all but the newest few."""
        folders = self._folders()
        for folder in folders[:-KEPT]:
            shutil.rmtree(folder, ignore_errors=True)
        self._write(folders[-KEPT:])

    def _folders(self) -> list[str]:
        try:
            return self._note.read_text(encoding="utf-8").splitlines()
        except OSError:
            return []

    def _write(self, folders: list[str]) -> None:
        self._note.write_text("".join(f"{each}\n" for each in folders), encoding="utf-8")
