"""Checks what users pass, where the service could not say what was wrong with it."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import TypeVar

from pydantic_core import PydanticSerializationError, to_json

from greenwave.client.errors import InvalidInputError

MAX_ROWS = 4096
MAX_BATCH_ROWS = 1024  # with the longest observations, in the service's bound of a body

AnyItem = TypeVar("AnyItem")

_NAME = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_MOBILE_NUMBER = re.compile(r"[0-9]{10}")


def new_key() -> str:
    """Return a new idempotency key."""
    return os.urandom(12).hex()


def checked_key(key: str | None) -> str:
    """Return the user's idempotency key, or a new one."""
    return new_key() if key is None else _named(key, "An idempotency key")


def run_headers(name: str | None) -> dict[str, str]:
    """Return the header that names a simulation run; none for the run ``default``."""
    return {} if name is None else {"x-simulation-run": checked_run(name)}


def checked_run(name: str) -> str:
    """Return the name of a simulation run."""
    return _named(name, "A run's name")


def numbers(values: Sequence[float], what: str) -> list[float]:
    """Return finite numbers as Python's own, whatever array they come in.

    Raises:
        InvalidInputError: a value is invalid; the message names it.
    """
    try:
        listed = list(values)
    except TypeError:
        listed = None
    if listed is None or isinstance(values, str | bytes):
        raise InvalidInputError(f"{what} must be a sequence of numbers, not {values!r:.50}")
    for at, value in enumerate(listed):
        try:
            is_finite = isinstance(value, Real) and math.isfinite(value)
        except OverflowError:
            raise InvalidInputError(f"{what}[{at}] is too large for a float") from None
        if not is_finite:
            raise InvalidInputError(f"{what}[{at}] must be a finite number, not {value!r:.50}")
    return [float(value) for value in listed]


def items(given: Iterable[AnyItem], what: str) -> list[AnyItem]:
    """Return what was given as a list, where it is not one thing or a text."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidInputError(f"{what} must come as a sequence, not as {given!r:.50}")
    return list(given)


def mobile_number(text: str) -> str:
    """Return a mobile number of ten digits."""
    if not isinstance(text, str) or _MOBILE_NUMBER.fullmatch(text) is None:
        raise InvalidInputError(f"A mobile number is a text of 10 digits, not {text!r:.50}")
    return text


def text(value: str | None, what: str) -> str:
    """Return a text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"{what} must be a text that is not blank, not {value!r:.50}")
    return value


def json_bytes(value: object) -> bytes:
    """Return a value as JSON."""
    try:
        return to_json(value, by_alias=True)
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise InvalidInputError(f"This cannot be sent as JSON: {error}") from None


def _named(name: str, what: str) -> str:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidInputError(
            f"{what} is 1 to 64 characters of A-Z a-z 0-9 . _ : -, not {name!r:.100}"
        )
    return name
