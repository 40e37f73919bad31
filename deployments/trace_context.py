"""The current trace, and its header between processes: W3C Trace Context, level 1."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar
from typing import NamedTuple

HEADER = "traceparent"
RAW_HEADER = HEADER.encode()  # as ASGI gives it

NOT_TRACED = f"00-{'f' * 32}-{'f' * 16}-00"
"""Has the next process begin no trace."""

_FORM = re.compile("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class Trace(NamedTuple):
    """A span of a recorded trace, the parent of further spans.

    Attributes:
        trace_id: 128 bits, not 0.
        span_id: 64 bits, not 0.
    """

    trace_id: int
    span_id: int

    def __str__(self) -> str:
        """Return the value of the header."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-01"


CURRENT: ContextVar[Trace | None] = ContextVar("trace", default=None)


class Sender(NamedTuple):
    """The sender's span, and whether the sender records it."""

    trace: Trace
    records: bool


def sender_of(traceparent: str) -> Sender | None:
    """Read a header; return None for an invalid one, which the recommendation has ignored."""
    found = _FORM.fullmatch(traceparent)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more):  # later versions may be longer
        return None
    trace = Trace(int(trace_id, 16), int(span_id, 16))
    return Sender(trace, bool(int(flags, 16) & 1)) if all(trace) else None


def traces_of(traces: Iterable[Trace | None]) -> list[Trace]:
    """Return each trace once, in their order."""
    return list(dict.fromkeys(trace for trace in traces if trace is not None))
