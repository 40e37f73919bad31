"""Log lines: what they are about, their form, and how few there are.

Serve writes the lines of this logger into the file of the replica, whose name has the application,
the deployment and the replica; :func:`deployments.ray_private.serve.prepare_log` adds the request.
A state actor has a file of its own beside these, and so have the keepers of the launcher.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from deployments.trace_context import CURRENT, NOT_TRACED, RAW_HEADER, sender_of

REQUEST_ID_HEADER = b"x-request-id"

_NOT_TRACED = NOT_TRACED.encode()

request_headers: ContextVar[Iterable[tuple[bytes, bytes]]] = ContextVar(
    "request_headers", default=()
)
"""Of the request at work, as ASGI has them; they are not looked at before a line is written."""


def about(**context: str | None) -> dict[str, dict[str, str]]:
    """Return what a line is about, as the ``extra`` of a logger's method."""
    return {"about": {name: value for name, value in context.items() if value is not None}}


def trace_id() -> str | None:
    """Return the id of the trace that is recorded here, or else of the client's, in hexadecimal."""
    trace = CURRENT.get()
    if trace is None:
        sent = _sent(RAW_HEADER) or b""
        sender = sender_of(sent.decode("latin-1")) if sent != _NOT_TRACED else None
        trace = sender and sender.trace
    return f"{trace.trace_id:032x}" if trace else None


def request_id() -> str | None:
    """Return the id that the request at work came with."""
    sent = _sent(REQUEST_ID_HEADER)
    return None if sent is None else sent.decode("latin-1")


def _sent(header: bytes) -> bytes | None:
    return next((value for name, value in request_headers.get() if name == header), None)


logger = logging.getLogger("ray.serve")

PERIOD_S = 10.0
MOST = 10


class RateLimitedLogger:
    """Writes the first warning of a kind at once, and then how many more there were in a period.

    To be used in an event loop.

    Args:
        what: is counted; the summaries begin with it.
    """

    def __init__(self, what: str, period_s: float = PERIOD_S) -> None:
        self._what = what
        self._period_s = period_s
        self._left_out: dict[str, int] = {}

    def warning(self, kind: str, message: str, *args: object, **context: str | None) -> None:
        """Write a warning, unless there was one of this kind in the period.

        Args:
            kind: one of few.
            message, args: as of ``logging``.
            context: what the line is about.
        """
        if kind in self._left_out:
            self._left_out[kind] += 1
            return
        self._left_out[kind] = 0
        logger.warning(message, *args, extra=about(**context), stacklevel=2)
        # The summary belongs to no request.
        asyncio.get_running_loop().call_later(
            self._period_s, self._summarize, kind, context=contextvars.Context()
        )

    def _summarize(self, kind: str) -> None:
        left_out = self._left_out.pop(kind)
        if left_out:
            logger.warning(
                "%s, %s: %d more within %g s", self._what, kind, left_out, self._period_s
            )


class Outages:
    """Writes one line when something stops serving, and one when it serves again.

    Of several outages within a period only the first has lines: a server that comes and goes must
    not fill the disk.

    Args:
        what: the name of the thing.
        clock: monotonic, in seconds.
    """

    def __init__(
        self, what: str, period_s: float = PERIOD_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what = what
        self._period_s = period_s
        self._clock = clock
        self._began: float | None = None
        self._told: float | None = None
        self._failures = 0
        self._unmentioned = 0

    def failed(self, error: Exception) -> None:
        """Note that it did not serve."""
        self._failures += 1
        if self._began is not None:
            return
        self._began = self._clock()
        if self._told is not None and self._began - self._told < self._period_s:
            self._unmentioned += 1
            return
        earlier = f" (as {self._unmentioned} times more before)" if self._unmentioned else ""
        self._told, self._unmentioned = self._began, 0
        line = "%s does not serve%s: %s"
        logger.warning(line, self._what, earlier, error, stacklevel=2)

    def served(self) -> None:
        """Note that it did."""
        if self._began is None:
            return
        began, self._began = self._began, None
        if began == self._told:
            lasted_s = self._clock() - began
            logger.warning(
                "%s serves again after %.1f s; %d calls failed",
                self._what,
                lasted_s,
                self._failures,
                stacklevel=2,
            )
        self._failures = 0


@dataclass
class _Place:
    """The lines of one place in the code in a period."""

    began: float
    written: int = 0
    left_out: int = 0


class RateLimitFilter(logging.Filter):
    """Lets few warnings and errors of one place in the code pass in a period.

    The net below what is written seldom anyway: no outage that nobody thought of, and no defect
    that every request meets, fills the disk. What was left out is told by the next line that
    passes.

    Args:
        most: lines of a place in a period.
        clock: monotonic, in seconds.
    """

    def __init__(
        self,
        most: int = MOST,
        period_s: float = PERIOD_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._most = most
        self._period_s = period_s
        self._clock = clock
        self._places: dict[tuple[str, int], _Place] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        now, key = self._clock(), (record.pathname, record.lineno)
        place = self._places.get(key)
        if place is None or now - place.began >= self._period_s:
            left_out = 0 if place is None else place.left_out
            place = self._places[key] = _Place(now)
            if left_out:
                record.msg = f"{record.getMessage()} (and {left_out} times more before)"
                record.args = ()
        passes = place.written < self._most
        place.written += passes
        place.left_out += not passes
        return passes


MAX_FILE_BYTES = 32 << 20

_STANDARD = vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "_ray_timestamp_ns"}


class Fields(logging.Filter):
    """Adds to each line what it is about, and its trace: as fields of JSON, or at the end of text.

    The id of a request is a field in both: Serve begins a line of text with it.

    Args:
        is_json: whether lines are JSON now; Serve may change that while a replica runs.
        fields: of every line, in JSON alone: the name of a file says the same of text.
    """

    def __init__(self, is_json: Callable[[], bool], **fields: str) -> None:
        super().__init__()
        self._is_json = is_json
        self._fields = fields

    def filter(self, record: logging.LogRecord) -> bool:
        told: dict[str, str] = record.__dict__.pop("about", {})
        if (request := request_id()) is not None:
            record.__dict__.setdefault("request_id", request)
        if (trace := trace_id()) is not None:
            told = {**told, "trace_id": trace}
        if self._is_json():
            for name, value in {**self._fields, **told}.items():
                record.__dict__.setdefault(name, value)
        elif told:
            words = " ".join(f"{name}={value}" for name, value in told.items())
            record.msg, record.args = f"{record.getMessage()} [{words}]", ()
        return True


class JsonLines(logging.Formatter):
    """One object a line, its names those of Serve's own lines of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "asctime": self.formatTime(record),
            "timestamp_ns": int(record.created * 1e9),
            "levelname": record.levelname,
            "message": record.getMessage(),
            "filename": record.filename,
            "lineno": record.lineno,
            "process": record.process,
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["exc_text"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def line_handler(handler: logging.Handler, text: str, is_json: bool, **fields: str) -> None:
    """Give a handler the form of its lines, in a process that is no replica of Serve.

    Args:
        text: the format of a line where it is not JSON.
        fields: of every line where it is.
    """
    handler.setFormatter(JsonLines() if is_json else logging.Formatter(text))
    handler.addFilter(RateLimitFilter())
    handler.addFilter(Fields(lambda: is_json, **fields))


def write_to(path: Path, name: str, is_json: bool = False, **fields: str) -> None:
    """Write the lines of this process to a file, in a process that is no replica of Serve.

    Args:
        name: of what writes, for each line of text.
        fields: for each line of JSON.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = RotatingFileHandler(path, maxBytes=MAX_FILE_BYTES, backupCount=1, delay=True)
    line_handler(handler, f"%(levelname)s %(asctime)s {name} -- %(message)s", is_json, **fields)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
