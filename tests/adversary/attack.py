"""Attacks, and what came of each."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.adversary.wire import RUN, Address, Answer, Piece, exchange, step

TOKEN = b"token-of-an-honest-user"  # in what is sent; a valid one takes its place
AT_ONCE = 8
EDGES = ("edge", "fallback")
NO_HTTP = "400 text/html"  # HAProxy's answer to what it cannot parse

Expected = tuple[int | str, ...]
"""A status with a body in the form that the service's document has, or status and media type."""


@dataclass(frozen=True)
class Attack:
    """One row.

    Attributes:
        answers: that must come, one after the other.
        at_front: the same at Serve's front, where they are others.
        port: the edge's listener that it is sent to; at Serve's front there is one for all.
        places: where it is made: at an edge with Serve's front behind it, at one with Ray's Python
            proxy in its place, and at Serve's front.
        form: a member that every error has in the form of the service that must answer.
    """

    name: str
    pieces: tuple[Piece, ...]
    answers: Expected
    at_front: Expected | None = None
    port: str = "inference"
    form: str = "detail"
    places: tuple[str, ...] = (*EDGES, "front")

    @property
    def waits(self) -> bool:
        return any(isinstance(piece, float) for piece in self.pieces)

    def expected(self, place: str) -> Expected:
        return self.answers if place != "front" or self.at_front is None else self.at_front


@dataclass(frozen=True)
class Outcome:
    """The answers to an attack.

    Attributes:
        made: steps of its run; None where an honest request afterwards was not answered right.
    """

    answers: list[Answer]
    made: int | None

    def kinds(self, form: str) -> Expected:
        return tuple(_kind(answer, form) for answer in self.answers if answer.status != 100)

    @property
    def predictions(self) -> int:
        """Number of answers that report a step."""
        return sum(_has_step(answer) for answer in self.answers)


async def attack_all(
    attacks: Iterable[Attack], ports: Mapping[str, Address], token: str
) -> dict[str, Outcome]:
    """Make all attacks, and after each one an honest request; return what came of each, by name.

    Those that wait are made all at once, the others a few at a time: no service is overloaded.
    """
    rows, a_few = list(attacks), asyncio.Semaphore(AT_ONCE)

    async def attack(row: Attack) -> Outcome:
        async with contextlib.nullcontext() if row.waits else a_few:
            return await _attack(row, ports, token)

    outcomes = await asyncio.gather(*map(attack, rows))
    assert len({row.name for row in rows}) == len(rows)
    return dict(zip((row.name for row in rows), outcomes, strict=True))


async def _attack(attack: Attack, ports: Mapping[str, Address], token: str) -> Outcome:
    run = uuid.uuid4().hex[: len(RUN)].encode()

    def ours(piece: bytes) -> bytes:
        return piece.replace(RUN, run).replace(TOKEN, token.encode())

    pieces = [ours(each) if isinstance(each, bytes) else each for each in attack.pieces]
    answers = await exchange(ports[attack.port], pieces)
    honest = await exchange(ports["inference"], [ours(step(b"Connection: close"))])
    made = None
    if [answer.status for answer in honest] == [200]:
        made = int(honest[0].headers["x-hidden-state-step"]) - 1
    return Outcome(answers, made)


def _has_step(answer: Answer) -> bool:
    if "x-hidden-state-step" in answer.headers:
        return True
    return answer.status == 200 and b'"predictedAction"' in answer.body


def _kind(answer: Answer, form: str) -> int | str:
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    if answer.status < 400 or (media_type.endswith("json") and form in _strictly(answer.body)):
        return answer.status
    return f"{answer.status} {media_type}"


def _strictly(body: bytes) -> Any:
    """Read what must be JSON, without what Python alone takes for it."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(body, parse_constant=refuse)
