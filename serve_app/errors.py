"""Errors that end a command in one sentence.

CommandError
├── DeployError      a config is refused, or an application does not start
├── InstanceError    Ray cannot be started or stopped
└── EdgeError        the edge cannot be started
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("serve_app", "deployments", "models", "lab")


class CommandError(RuntimeError):
    """A command cannot do what it is asked; the message is one sentence for the operator."""


class DeployError(CommandError):
    """A config cannot be stored or is refused, or an application fails or takes too long."""


class InstanceError(CommandError):
    """The Ray cluster of an instance cannot be started or stopped."""


class EdgeError(CommandError):
    """The edge cannot be started."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The edge did not start: {reason.rstrip('.')}.")


@contextmanager
def as_command_error(*errors: type[Exception]) -> Iterator[None]:
    """Turn errors whose messages are clear to an operator into :class:`CommandError`."""
    try:
        yield
    except errors as error:
        raise CommandError(f"{str(error).rstrip('.')}.") from error


@contextmanager
def naming_broken_files() -> Iterator[None]:
    """Import modules that may be broken, and name the file that is.

    Raises:
        CommandError: an import raised an error.
    """
    try:
        yield
    except Exception as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise CommandError(
            f"Cannot import {place(error)}: {type(error).__name__}: {reason}"
        ) from error


def place(error: Exception) -> str:
    """Return file and line of a failed import: in our code where the error shows in a library."""
    if isinstance(error, SyntaxError) and error.filename:
        path, line = Path(error.filename), error.lineno
    else:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if _is_ours(Path(frame.filename))]
        last = (ours or frames)[-1]
        path, line = Path(last.filename), last.lineno
    return f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}"


def _is_ours(path: Path) -> bool:
    return path.is_relative_to(ROOT) and "site-packages" not in path.relative_to(ROOT).parts
