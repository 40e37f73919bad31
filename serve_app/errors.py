"""What ends a command in one sentence, also where code on the disk is half changed."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class CommandError(RuntimeError):
    """A command cannot do what it shall; the message is one clear sentence for its user."""


@contextmanager
def naming_broken_files() -> Iterator[None]:
    """Import within it what may be broken, and be told which file is.

    Raises:
        CommandError: for whatever an import raises.
    """
    try:
        yield
    except Exception as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise CommandError(
            f"{place(error)} does not import: {type(error).__name__}: {reason}"
        ) from error


def place(error: Exception) -> str:
    """Return file and line of a failed import: our own, where the fault shows in a library."""
    if isinstance(error, SyntaxError) and error.filename:
        path, line = Path(error.filename), error.lineno
    else:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if _is_ours(Path(frame.filename))]
        last = (ours or frames)[-1]  # installed as a package, all of our files lie with libraries
        path, line = Path(last.filename), last.lineno
    return f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}"


def _is_ours(path: Path) -> bool:
    return path.is_relative_to(ROOT) and not path.is_relative_to(sys.prefix)
