"""What a mutant is."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

CORE = Path("deployments")


class Mutant(NamedTuple):
    """One defect: a text of a source file, which stands there once, and what takes its place.

    Attributes:
        file: below ``deployments``.
    """

    name: str
    file: str
    old: str
    new: str

    def put_into(self, root: Path) -> None:
        """Change the copy of the project at ``root``.

        Raises:
            ValueError: the text does not stand there exactly once.
        """
        path = root / CORE / self.file
        source = path.read_text(encoding="utf-8")
        if source.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: its text stands {source.count(self.old)} times in {path}"
            )
        path.write_text(source.replace(self.old, self.new), encoding="utf-8")
