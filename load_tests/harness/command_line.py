"""What the command lines of benchmarks, fault injection and load scenarios share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # matplotlib takes half a second, which --help does not need
    from matplotlib.figure import Figure


def names_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """Return a reader of some of the known names, separated by commas, each once."""

    def read(text: str) -> list[str]:
        names = list(dict.fromkeys(text.split(",")))
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(known)}")
        return names

    return read


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture that is the same for the same figures; the suffix is its format."""
    figure.savefig(path, dpi=110, metadata={"Software": None} if path.suffix == ".png" else None)
