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
        refusal = _REFUSALS.get(status, InvalidRequestError)
        error = (KeyReusedError if code == "key_reused" else refusal)(**facts)
        return Failure(error, passes=False, perhaps_done=False)
    waits_for_a_model = code == "model_not_loaded" and facts["retry_after_s"] is None
    passes = foreign or status in _PASSING or code == "outcome_unknown"
    return Failure(
        UnavailableError(**facts),
        passes=passes and not waits_for_a_model,
        perhaps_done=code not in _NOTHING_DONE,
    )


def _facts(reply: Reply) -> dict[str, Any]:
    try:
        body = from_json(reply.body) if reply.is_json else None
    except ValueError:
        body = None
    members = body if isinstance(body, dict) else {}
    code, seconds = members.get("code"), reply.headers.get("retry-after", "")
    return {
        "message": _message(members) or f"The answer has the status {reply.status}",
        "status": reply.status,
        "code": reply.headers.get("x-error-code") or (code if isinstance(code, str) else None),
        "retry_after_s": float(seconds) if seconds.isdecimal() else None,
    }


def _message(body: dict[str, Any]) -> str | None:
    """Return the message of a service, in any of the forms that services use."""
    for name in ("message", "errorMessage", "detail", "title", "error"):
        if isinstance(text := body.get(name), str) and text:
            return text
    faults = body.get("detail")
    if isinstance(faults, list) and faults and isinstance(faults[0], dict):
        where = ".".join(map(str, faults[0].get("loc", ())))
        return f"{where}: {faults[0].get('msg')}"
    return None
