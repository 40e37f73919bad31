"""Errors of the engine. After any but :class:`OutcomeUnknownError`, no state has changed."""

from __future__ import annotations

from pathlib import Path


class StateError(Exception):
    """Base of the errors that keep a state from being stepped, or a run from being changed."""


class TooManyStatesError(StateError):
    """The limit on states is reached; states expire with their runs.

    Attributes:
        retry_after_s: by then a run may have expired. A reset makes room earlier.
    """

    def __init__(self, n_states: int, retry_after_s: int = 60) -> None:
        super().__init__(n_states, retry_after_s)  # the arguments of unpickling
        self.n_states = n_states
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return (
            f"All {self.n_states} hidden states (max_states) are in use. Reset a run, or wait "
            "until an idle one expires"
        )


class TableFullError(TooManyStatesError):
    """The file of the table cannot grow: its folder is full."""

    def __str__(self) -> str:
        return (
            f"The folder of the hidden states is full, with {self.n_states} of them. Free space "
            "there, or reset a run"
        )


class KeyReusedError(StateError):
    """The idempotency key belongs to a step with another input; no step is made."""

    def __str__(self) -> str:
        return "The idempotency key was used with another observation"


class NotBegunError(StateError):
    """The step was to continue a sequence, and its state has made no step; none is made."""

    def __str__(self) -> str:
        return "The sequence was not started, or has ended"


class UnavailableError(StateError):
    """The table cannot be reached, or its home may not act now; nothing was changed."""


class OutcomeUnknownError(StateError):
    """The change may have been made or not: it was not confirmed in time."""

    def __str__(self) -> str:
        return "It was not confirmed in time, and may have been done or not"


class FolderError(StateError):
    """The folder or file of a table cannot be used; the message says why, in one sentence."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(path, why)
        self.why = why

    def __str__(self) -> str:
        return f"{self.args[0]}: {self.why}"
