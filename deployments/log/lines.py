"""The form of a line: text that ends with what it is about, or JSON with fields."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from deployments.log.context import request_id, trace_id
from deployments.log.rate_limit import RateLimitFilter, logger

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
