"""How a client records an answer or its absence; a wrong record would blind the checker."""

import threading

import pytest

from load_tests.chaos.clients import Client
from load_tests.chaos.history import History, Key, Outcome
from tests.support.local_server import Answer, Request, serving
from tests.support.raw_server import closed_port

KEY = Key("run", "junction")
JSON = {"content-type": "application/json"}
BODY = b'{"action": 2, "confidence": 0.75}'
SILENCE = "silence"
ANSWERS = {
    "an answer": (Answer(200, BODY, JSON | {"x-hidden-state-step": "7"}), Outcome.ANSWERED),
    "its refusal": (Answer(503, BODY, JSON | {"x-error-code": "overloaded"}), Outcome.REFUSED),
    "its doubt": (Answer(503, BODY, JSON | {"x-error-code": "outcome_unknown"}), Outcome.UNKNOWN),
    "a defect": (Answer(500, BODY, JSON), Outcome.UNKNOWN),
    "the proxy's 503": (Answer(503, b"<html>", {"content-type": "text/html"}), Outcome.UNKNOWN),
    "a dropped connection": (None, Outcome.UNKNOWN),
    SILENCE: (None, Outcome.UNKNOWN),
}


@pytest.mark.parametrize("what", ANSWERS)
async def test_an_outcome_is_known_only_from_the_service_itself(what: str) -> None:
    (answer, outcome), history, ended = ANSWERS[what], History(), threading.Event()

    def respond(request: Request) -> Answer | None:
        if what == SILENCE:
            ended.wait(60)
        return answer

    # Only silence may end by the time limit, however busy the machine is.
    timeout_s = 0.2 if what == SILENCE else 60.0
    with serving(respond) as url:
        async with Client(url, history, timeout_s=timeout_s) as client:
            asked = await client.predict(KEY, observation=[0.1])
            assert await client.reset("run", "key") is (outcome is Outcome.ANSWERED)
        ended.set()
    assert asked.outcome is outcome
    answered = (7, 2, 0.75) if outcome is Outcome.ANSWERED else (0, 0, 0.0)
    assert (asked.step, asked.action, asked.confidence) == answered
    assert asked.observation == (0.1,)
    assert bool(asked.error) is (outcome is not Outcome.ANSWERED)
    assert asked.sent < asked.done
    assert history.predictions == [asked]
    assert [(reset.outcome, reset.request) for reset in history.resets] == [(outcome, "key")]


async def test_a_request_that_was_never_sent_counts_as_refused() -> None:
    async with Client(closed_port(), History()) as client:
        assert (await client.predict(KEY)).outcome is Outcome.REFUSED
