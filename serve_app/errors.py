"""Errors that end a command in one sentence.

CommandError
├── DeployError      a config is refused, or an application does not start
├── InstanceError    Ray cannot be started or stopped
└── EdgeError        the edge cannot be started
"""

from __future__ import annotations

import traceback
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


def is_of_import(error: Exception) -> bool:
    """Return whether a command could not import a module: the module's code raised the error."""
    frames = traceback.extract_tb(error.__traceback__)
    at_import = any(frame.name == "<module>" for frame in frames)
    return at_import or isinstance(error, ImportError | SyntaxError)


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
