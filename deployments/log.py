"""Log lines: their context, their form and their rate limits.

Serve writes the lines of this logger to the file of the replica, whose name has the application,
the deployment and the replica. :func:`deployments.ray_private.serve.prepare_log` adds the request.
State actors and the launcher's supervision have separate files.
"""

from __future__ import annotations

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

request_headers: ContextVar[Iterable[tuple[bytes, bytes]]] = ContextVar(
    "request_headers", default=()
)
"""Headers of the current request, as ASGI has them; read only when a line is written."""


def about(**context: str | None) -> dict[str, dict[str, str]]:
    """Return the context of a line, as the ``extra`` of a logger's method."""
    return {"about": {name: value for name, value in context.items() if value is not None}}


def trace_id() -> str | None:
    """Return the id of the recorded trace, or else of the client's trace, in hexadecimal."""
    trace = CURRENT.get()
    if trace is None:
        sent = (_sent(RAW_HEADER) or b"").decode("latin-1")
        sender = None if sent == NOT_TRACED else sender_of(sent)
        trace = sender and sender.trace
    return f"{trace.trace_id:032x}" if trace else None


def request_id() -> str | None:
    """Return the id of the current request."""
    sent = _sent(REQUEST_ID_HEADER)
    return None if sent is None else sent.decode("latin-1")


def _sent(header: bytes) -> bytes | None:
    return next((value for name, value in request_headers.get() if name == header), None)


logger = logging.getLogger("ray.serve")

PERIOD_S = 10.0
MOST = 10


class Outages:
    """Writes one line when something fails, and one when it works again.

    Args:
        what: its name.
        clock: monotonic, in seconds.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._began = 0.0
        self._failures = 0

    def failed(self, error: Exception) -> None:
        """Note a failure."""
        self._failures += 1
        if self._failures == 1:
            self._began = self._clock()
            # A timeout has no text.
            text = str(error) or repr(error)
            logger.warning("%s does not serve: %s", self._what, text, stacklevel=2)

    def served(self) -> None:
        """Note a success."""
        if self._failures:
            lasted_s, failures = self._clock() - self._began, self._failures
            self._failures = 0
            line = "%s serves again after %.1f s; %d calls failed"
            logger.warning(line, self._what, lasted_s, failures, stacklevel=2)


@dataclass
class _Place:
    """The lines of a place in the code in a period."""

    began: float
    written: int = 0
    left_out: int = 0


class RateLimitFilter(logging.Filter):
    """Limits the warnings and errors of each place in the code in a period.

    So an unforeseen outage, or a defect that every request meets, does not fill the disk. The next
    line that passes counts those left out.

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
    """Adds context and trace to each line: as fields of JSON, or at the end of text.

    The request id is a field in both: Serve begins a line of text with it.

    Args:
        is_json: whether lines are JSON now; Serve may change that while a replica runs.
        fields: of every line, in JSON only: the name of a text file has them.
    """

    def __init__(self, is_json: Callable[[], bool], **fields: str) -> None:
        super().__init__()
        self._is_json = is_json
        self._fields = fields

    def filter(self, record: logging.LogRecord) -> bool:
        context: dict[str, str] = record.__dict__.pop("about", {})
        if (request := request_id()) is not None:
            record.__dict__.setdefault("request_id", request)
        if (trace := trace_id()) is not None:
            context = {**context, "trace_id": trace}
        if self._is_json():
            for name, value in {**self._fields, **context}.items():
                record.__dict__.setdefault(name, value)
        elif context:
            words = " ".join(f"{name}={value}" for name, value in context.items())
            record.msg, record.args = f"{record.getMessage()} [{words}]", ()
        return True


class JsonLines(logging.Formatter):
    """One JSON object per line, with the names of Serve's own JSON lines."""

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
    """Set the form of a handler's lines, in a process that is not a replica of Serve.

    Args:
        text: format of lines that are not JSON.
        fields: of every JSON line.
    """
    handler.setFormatter(JsonLines() if is_json else logging.Formatter(text))
    handler.addFilter(RateLimitFilter())
    handler.addFilter(Fields(lambda: is_json, **fields))


def write_to(path: Path, name: str, is_json: bool = False, **fields: str) -> None:
    """Write the lines of this process, which is not a replica of Serve, to a file.

    Args:
        name: of the process, for each line of text.
        fields: of every JSON line.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = RotatingFileHandler(path, maxBytes=MAX_FILE_BYTES, backupCount=1, delay=True)
    line_handler(handler, f"%(levelname)s %(asctime)s {name} -- %(message)s", is_json, **fields)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
