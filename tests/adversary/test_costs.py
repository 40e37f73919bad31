"""What a body costs to read: no more than its length implies, whatever its content."""

import contextlib
import time
import timeit
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from deployments.customers.records import json_body
from deployments.density.schemas import parse_densities
from deployments.flow.schemas import parse_question
from deployments.gateway.action_request import parse_action_request
from deployments.http.errors import RefusedError
from deployments.inference import routes

KB = 1024
READERS: dict[str, tuple[Callable[[bytes], object], int]] = {
    "step": (lambda body: routes.read_body(routes._PREDICTION, body), 64 * KB),
    "steps": (lambda body: routes._read_batch(body), 2048 * KB),
    "decision": (parse_action_request, 64 * KB),
    "density": (parse_densities, 64 * KB),
    "flow": (lambda body: parse_question(body, 2e9), 1024 * KB),
    "record": (json_body.parse_json_object, 64 * KB),
}
MEMBER = 20  # characters


def repeated(opening: bytes, member: Callable[[int], bytes], closing: bytes, size: int) -> bytes:
    n = size // MEMBER
    return opening + b",".join(member(number) for number in range(n)) + closing


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "brackets": lambda size: b"[" * size,
    "objects, nested": lambda size: b'{"a":' * (size // 5),
    "digits": lambda size: b'{"obs_data":[' + b"9" * size + b"]}",
    "digits in the field": lambda size: (
        b'{"junction_id":"300839359","obs_data":[0.%b]}' % (b"1" * size)
    ),
    "members with one hash of their numbers": lambda size: repeated(
        b"{", lambda n: b'"%d":0' % ((n + 1) * (2**61 - 1)), b"}", size
    ),
    "members": lambda size: repeated(b"{", lambda n: b'"%d":0' % n, b"}", size),
    "one member, often": lambda size: repeated(b"{", lambda n: b'"data":[]', b"}", size),
    "values of a wrong type": lambda size: (
        b'{"junction_id":"300839359","obs_data":[%b]}' % b",".join([b"{}"] * (size // 3 - 20))
    ),
    "items": lambda size: repeated(b'{"items":[', lambda n: b"[1,2,3]", b"]}", size),
    "rows of many lengths": lambda size: (
        b'{"data":[%b]}' % b",".join(b"[" + b"0," * n + b"0]" for n in range(int(size**0.5) - 5))
    ),
    "escapes": lambda size: b'{"junction_id":"' + b"\\u0061" * (size // 6) + b'"}',
    "spaces": lambda size: b" " * size,
}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("reader", READERS)
def test_a_hostile_body_costs_little_more_than_its_length(reader, hostile):
    read, largest = READERS[reader]
    body = HOSTILE[hostile](largest)[:largest]

    def refused() -> None:
        with contextlib.suppress(RefusedError, ValidationError, ValueError):
            read(body)

    seconds = min(timeit.repeat(refused, number=1, repeat=3, timer=time.thread_time))
    assert seconds < 0.5 * largest / (1 << 20) + 0.05
