"""The errors that a call can raise.

GreenwaveError
├── InvalidInputError           an argument is wrong; nothing was sent
├── RefusedError                the service understood, and did nothing
│   ├── InvalidRequestError     400, 413, 415, 422, …
│   │   └── KeyReusedError      422: the key belongs to a step with other observations
│   ├── UnauthorizedError       401: wrong user name or password
│   ├── NotFoundError           404: no such junction, no such record
│   └── TooManyLoginsError      429
└── UnavailableError            no result is available now
    └── UnknownOutcomeError     the request may have had its effect or not
        └── UnusableAnswerError the answer is not of the documented form
"""

from __future__ import annotations

from collections.abc import Mapping


class GreenwaveError(Exception):
    """The base of all errors of the client.

    Attributes:
        message: one sentence; the service's own where it has answered.
        call: method and URL, empty while nothing was to be sent.
        status: of the last answer, None if there was none.
        code: the service's error code, such as ``overloaded``, if it gave one.
        retry_after_s: after which the service asks to be tried again, if it named a time.
        attempts: how often the call was sent.
    """

    def __init__(
        self,
        message: str,
        *,
        call: str = "",
        status: int | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
        attempts: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.call = call
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s
        self.attempts = attempts

    def __str__(self) -> str:
        facts = [str(fact) for fact in (self.status, self.code) if fact is not None]
        facts += [f"{self.attempts} attempts"] if self.attempts > 1 else []
        where = f"{self.call}: " if self.call else ""
        return where + self.message + (f" ({', '.join(facts)})" if facts else "")


class InvalidInputError(GreenwaveError, ValueError):
    """An argument is wrong; nothing was sent."""


class RefusedError(GreenwaveError):
    """The service understood the request and did nothing; the same request is refused again."""


class InvalidRequestError(RefusedError):
    """The request breaks a rule, which the message names.

    Attributes:
        fields: of a record, the message of each field that breaks a rule.
    """

    fields: Mapping[str, str] = {}


class KeyReusedError(InvalidRequestError):
    """The idempotency key belongs to a step with other observations."""


class UnauthorizedError(RefusedError):
    """The gateway does not know this user name and password."""


class NotFoundError(RefusedError):
    """There is no such junction, record or route."""


class TooManyLoginsError(RefusedError):
    """This user name or address has used up its logins of this minute."""


class UnavailableError(GreenwaveError):
    """No result is available now, and nothing was done."""


class UnknownOutcomeError(UnavailableError):
    """The request may have had its effect or not.

    Attributes:
        key: of a step, to repeat the request.
    """

    key: str | None = None


class UnusableAnswerError(UnknownOutcomeError):
    """The answer is not of the documented form; another program may have sent it."""
