"""Which error an answer without a result is, and whether another attempt can succeed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from greenwave.client.call import NoReply, Reply
from greenwave.client.errors import (
    GreenwaveError,
    InvalidRequestError,
    KeyReusedError,
    NotFoundError,
    RefusedError,
    TooManyLoginsError,
    UnauthorizedError,
    UnavailableError,
)

_PASSING = (408, 502, 503, 504)
_REFUSALS: Mapping[int, type[RefusedError]] = {
    401: UnauthorizedError,
    404: NotFoundError,
    429: TooManyLoginsError,
}
_NOTHING_DONE = ("overloaded", "model_not_loaded", "too_many_states")


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt without a result.

    Attributes:
        passes: whether another attempt may succeed.
        perhaps_done: whether the request may have had its effect.
    """

    error: GreenwaveError
    passes: bool
    perhaps_done: bool


def failure_of(outcome: Reply | NoReply) -> Failure:
    """Return the failure that an outcome without a result means."""
    if isinstance(outcome, NoReply):
        return Failure(UnavailableError(outcome.reason), passes=True, perhaps_done=outcome.sent)
    facts = _facts(outcome)
    status, code = outcome.status, facts["code"]
    # A service answers in JSON. Anything else is from what stands before it: Ray Serve while it
    # has no routes, or a replica died over the request.
    foreign = not outcome.is_json and status in (404, 500)
    if status == 408:
        return Failure(UnavailableError(**facts), passes=True, perhaps_done=False)
    if status < 500 and not foreign:
        return Failure(_refusal(status, facts), passes=False, perhaps_done=False)
    waits_for_a_model = code == "model_not_loaded" and facts["retry_after_s"] is None
    return Failure(
        UnavailableError(**facts),
        passes=(foreign or status in _PASSING or code == "outcome_unknown")
        and not waits_for_a_model,
        perhaps_done=code not in _NOTHING_DONE,
    )


def _refusal(status: int, facts: dict[str, Any]) -> RefusedError:
    if facts["code"] == "key_reused":
        return KeyReusedError(**facts)
    return _REFUSALS.get(status, InvalidRequestError)(**facts)


def _facts(reply: Reply) -> dict[str, Any]:
    body = _members(reply)
    return {
        "message": _message(body) or f"The answer has the status {reply.status}",
        "status": reply.status,
        "code": reply.headers.get("x-error-code") or _text(body.get("code")),
        "retry_after_s": _seconds(reply.headers.get("retry-after")),
    }


def _members(reply: Reply) -> dict[str, Any]:
    try:
        body = from_json(reply.body) if reply.is_json else None
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {}


def _message(body: dict[str, Any]) -> str | None:
    """Return the message of a service, in any of the forms that services use."""
    for name in ("message", "errorMessage", "detail", "title", "error"):
        if text := _text(body.get(name)):
            return text
    faults = body.get("detail")
    if isinstance(faults, list) and faults and isinstance(faults[0], dict):
        where = ".".join(map(str, faults[0].get("loc", ())))
        return f"{where}: {faults[0].get('msg')}"
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None
