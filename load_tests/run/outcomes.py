"""What a load test counts an answer as."""

from __future__ import annotations

from typing import NamedTuple

from greenwave.client.core.call import NoReply, Reply

REFUSED = " refused"
"""Ends the name of a route in the statistics of what it has refused."""

_OVERLOADED = "overloaded"


class Told(NamedTuple):
    """What the statistics are told.

    Attributes:
        suffix: of the route's name.
        failure: None for an answer that is as it should be.
    """

    suffix: str = ""
    failure: Exception | None = None


def tell(outcome: Reply | NoReply, may_be_refused: bool) -> Told:
    """Tell an answer from a refusal and from a failure.

    Args:
        may_be_refused: whether a refusal for load is as it should be, if it is a 503 with the code
            ``overloaded`` that says when to try again.
    """
    if isinstance(outcome, NoReply):
        return Told(failure=ConnectionError(outcome.reason))
    if outcome.status < 400:
        return Told()
    code = outcome.headers.get("x-error-code", "")
    overloaded = outcome.status == 503 and code == _OVERLOADED
    says_when = outcome.headers.get("retry-after", "").isdecimal()
    if overloaded and says_when and may_be_refused:
        return Told(suffix=REFUSED)
    missing = " without Retry-After" if overloaded and not says_when else ""
    return Told(failure=RuntimeError(f"status {outcome.status} {code}".strip() + missing))
