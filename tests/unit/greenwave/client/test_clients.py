"""Both clients on whole ways: with retries, logins that are shared, cancelled calls, an end."""

import asyncio
import json
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from greenwave.client import (
    AsyncClient,
    Client,
    Decision,
    InvalidInputError,
    Retries,
    Timeouts,
    UnavailableError,
)
from greenwave.client.call import NoReply, Reply, Send
from tests.support.raw_server import Server, keep_silent
from tests.unit.greenwave.client.play import LOST, Exchanges, answer, granted

JUNCTION, OBSERVATION = "300839359", [1, 0, 1, 0.4]


@dataclass
class FakeGateway:
    """Counts what it is asked for, and makes a step for each action."""

    asked: Counter[str] = field(default_factory=Counter)
    closed: bool = False

    async def __call__(self, send: Send, /) -> Reply | NoReply:
        await asyncio.sleep(0)
        path = send.url.removeprefix("http://gateway")
        self.asked[path] += 1
        if path == "/api/auth/login":
            return granted(f"token-{self.asked[path]}")
        body = {
            "junctionId": json.loads(send.body or b"")["junctionId"],
            "predictedAction": self.asked[path],
            "signalState": "RED",
            "timestamp": 1,
            "status": "success",
        }
        return answer(200, body)

    async def close(self) -> None:
        self.closed = True


def test_threads_that_start_together_log_in_once():
    gateway = FakeGateway()
    with (
        Client("http://gateway", "ann", "secret", exchange=gateway) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        together = threading.Barrier(8)

        def act(_: int) -> Decision:
            together.wait()
            return client.run().act(JUNCTION, OBSERVATION)

        assert len(list(threads.map(act, range(8)))) == 8
    assert gateway.asked["/api/auth/login"] == 1


async def test_a_call_that_is_cancelled_while_it_logs_in_leaves_the_login_to_the_next():
    began = asyncio.Event()

    class SlowOnce(FakeGateway):
        async def __call__(self, send: Send, /) -> Reply | NoReply:
            if not began.is_set():
                began.set()
                await asyncio.Event().wait()
            return await super().__call__(send)

    async with AsyncClient("http://gateway", "ann", "x", exchange=SlowOnce()) as client:
        cancelled = asyncio.create_task(client.run().act(JUNCTION, OBSERVATION))
        await began.wait()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert (await client.run().act(JUNCTION, OBSERVATION)).action == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_calls_do_not_wait_longer_than_their_time_for_others_login():
    short = Timeouts(total_s=0.2)
    with Server(keep_silent) as server:
        async with AsyncClient(server.url, "ann", "x", timeouts=short) as client:
            calls = [client.run().act(JUNCTION, OBSERVATION) for _ in range(3)]
            async with asyncio.timeout(5):
                errors = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(error) for error in errors} == {UnavailableError}


async def test_a_closed_client_says_so():
    blocking, awaiting = Client("http://gateway"), AsyncClient("http://gateway")
    blocking.close()
    await awaiting.close()
    with pytest.raises(InvalidInputError, match="closed"):
        blocking.inference.health()
    with pytest.raises(InvalidInputError, match="closed"):
        await awaiting.inference.health()


def test_the_token_of_the_inference_service_goes_to_it_alone():
    seen: dict[str, str | None] = {}

    async def see(send: Send) -> Reply | NoReply:
        seen[send.url.removeprefix("http://x")] = send.headers.get("authorization")
        return LOST

    once = Retries(attempts=1)
    with Client(
        "http://x", inference_token="i" * 32, retries=once, exchange=Exchanges(see)
    ) as client:
        run = client.inference.run("r")
        for call in (
            lambda: run.predict(JUNCTION, OBSERVATION),
            lambda: run.predict_many([(JUNCTION, OBSERVATION)]),
            lambda: client.inference.infer([OBSERVATION], [JUNCTION]),
            run.reset,
            run.info,
            client.inference.health,
            client.inference.livez,
            client.density.health,
        ):
            with pytest.raises(UnavailableError):
                call()
    without = {path for path, bearer in seen.items() if bearer is None}
    assert without == {"/livez", "/density/health"}
    assert {*seen.values()} == {None, "Bearer " + "i" * 32}


PROGRAM = """import os, sys
from greenwave.client import Client, InvalidInputError

client = Client(sys.argv[1])
client.inference.run("a").reset()
if os.fork() == 0:
    try:
        client.inference.run("a").reset()
    except InvalidInputError:
        print("closed")
else:
    os.wait()
"""


def test_a_client_that_is_not_closed_ends_with_the_program_and_is_closed_in_a_fork():
    with Server() as server:
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, server.url]
        ran = subprocess.run(command, capture_output=True, timeout=30)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"closed\n", b"")
    assert len(server.requests) == 1


def test_a_call_that_was_begun_is_answered_after_the_client_was_closed():
    class Slow(FakeGateway):
        async def __call__(self, send: Send, /) -> Reply | NoReply:
            began.set()
            await asyncio.sleep(0.05)
            return await super().__call__(send)

    began, gateway = threading.Event(), Slow()
    with ThreadPoolExecutor() as threads:
        client = Client("http://gateway", "ann", "secret", exchange=gateway)
        decided = threads.submit(client.run().act, JUNCTION, OBSERVATION)
        assert began.wait(5)
        client.close()
        assert decided.result().action == 1
    assert gateway.closed
    assert "greenwave-client" not in {thread.name for thread in threading.enumerate()}
