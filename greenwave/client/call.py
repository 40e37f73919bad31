"""A call of a service, the request that a client sends for it, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, Protocol, TypeVar

Result = TypeVar("Result")


class Effect(Enum):
    """The effect of a call on the service, and so of its repetition."""

    NONE = "a call only reads"
    IDEMPOTENT = "a call has one effect, however often it arrives"
    NOT_IDEMPOTENT = "a call has one more effect each time it arrives"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_json(self) -> bool:
        return "json" in self.headers.get("content-type", "")


@dataclass(frozen=True, slots=True)
class NoReply:
    """No answer came.

    Attributes:
        sent: whether the request may have arrived.
        reason: for the message of an error.
    """

    sent: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[Result]):
    """A request, and how to read its answer.

    Attributes:
        read: from an answer with one of the statuses ``answers`` to the result; raises ValueError
            if it is not of the documented form, or an error of the client.
        authorized: whether the gateway's token goes with it.
        key: the idempotency key that is in the request, for a user to repeat it.
        is_incomplete: whether a result is to be asked for again, while there is time.
    """

    method: str
    url: str
    read: Callable[[Reply], Result]
    effect: Effect = Effect.NONE
    answers: tuple[int, ...] = (200,)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    authorized: bool = False
    key: str | None = None
    is_incomplete: Callable[[Result], bool] = lambda _: False

    def __str__(self) -> str:
        return f"{self.method} {self.url}"


@dataclass(frozen=True, slots=True)
class Send:
    """A request, and its longest times."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    timeout_s: float
    connect_s: float


class Exchange(Protocol):
    """Sends requests."""

    async def __call__(self, send: Send, /) -> Reply | NoReply: ...

    async def close(self) -> None: ...
