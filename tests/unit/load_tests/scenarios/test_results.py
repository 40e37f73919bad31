"""How outcomes are counted, and how the statistics that Locust writes are read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from itertools import cycle
from pathlib import Path

import pytest

from deployments.gateway.schemas import FALLBACK_STATUS
from greenwave.client.core.call import NoReply, Reply
from load_tests.harness.wrk import wrk_command
from load_tests.scenarios.results import (
    ALL,
    REFUSED,
    Row,
    classify,
    read_failures,
    read_log,
    read_rows,
)


def entry(method: str, name: str, failures: int, took: dict[str, int]) -> dict[str, object]:
    return {
        "method": method,
        "name": name,
        "num_requests": sum(took.values()),
        "num_failures": failures,
        "response_times": took,
    }


def test_rows_are_by_path_and_the_last_is_of_all_requests(tmp_path: Path):
    path = tmp_path / "stats.json"
    entries = [
        entry("DELETE", "/b", 1, {"7": 1, "100": 1}),
        entry("PUT", "/a", 0, {"7": 2}),
        entry("POST", "/a", 2, {"0.5": 6}),
    ]
    path.write_text(json.dumps(entries))
    rows = read_rows(path)
    assert [row.route for row in rows] == ["POST /a", "PUT /a", "DELETE /b", ALL]
    assert (rows[-1].requests, rows[-1].failures) == (10, 3)
    assert rows[-1].took == {0.5: 6, 7: 3, 100: 1}


def test_percentiles_are_of_the_requests_and_not_of_the_times():
    row = Row("GET /", 100)
    row.took.update({900: 1, 20: 4, 10: 95})
    assert (row.p50_ms, row.p95_ms, row.p99_ms) == (10, 10, 20)


@pytest.mark.parametrize("figure", ["p50_ms", "p99_ms", "error_rate"])
def test_a_route_without_requests_has_no_figure(figure):
    assert getattr(Row("GET /"), figure) is None


def test_failures_are_told_the_most_frequent_first(tmp_path: Path):
    path = tmp_path / "failures.csv"
    path.write_text("Method,Name,Error,Occurrences\nGET,/a,status 500,2\nPUT,/b,status 503,11\n")
    assert read_failures(path) == ["11 × PUT /b: status 503", "2 × GET /a: status 500"]


OVERLOADED = Reply(503, {"x-error-code": "overloaded", "retry-after": "2"}, b"")
NEVER = Reply(503, {"x-error-code": "overloaded"}, b"")
ANOTHER_503 = Reply(503, {"x-error-code": "model_not_loaded", "retry-after": "2"}, b"")
AWAY = NoReply(False, "No connection")


def test_a_proper_refusal_is_a_route_of_its_own_where_it_may_be():
    assert classify(OVERLOADED, may_be_refused=True) == (REFUSED, None)


@pytest.mark.parametrize(
    ("outcome", "may_be_refused", "reason"),
    [
        (OVERLOADED, False, "status 503 overloaded"),
        (NEVER, True, "status 503 overloaded without Retry-After"),
        (ANOTHER_503, True, "status 503 model_not_loaded"),
        (Reply(429, {"retry-after": "2"}, b""), True, "status 429"),
        (Reply(404, {}, b""), True, "status 404"),
        (AWAY, True, "No connection"),
    ],
)
def test_anything_else_is_a_failure_that_says_why(outcome, may_be_refused, reason):
    classified = classify(outcome, may_be_refused)
    assert (classified.suffix, str(classified.failure)) == ("", reason)


def test_an_answer_is_no_failure():
    assert classify(Reply(201, {}, b""), may_be_refused=False) == ("", None)


def test_a_fallback_of_the_gateway_is_a_failure():
    body = json.dumps({"predictedAction": 0, "status": FALLBACK_STATUS}).encode()
    classified = classify(Reply(200, {}, body), may_be_refused=False)
    assert (classified.suffix, str(classified.failure)) == ("", "fallback of the gateway")


RESPONSES = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 503 Busy\r\nX-Error-Code: overloaded\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
    b"",  # the connection is closed
]


@pytest.mark.skipif(shutil.which("wrk") is None, reason="needs wrk")
async def test_wrk_logs_the_outcome_and_the_time_of_each_request():
    responses = cycle(RESPONSES)
    answering: set[asyncio.Task[None] | None] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.add(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                if not (response := next(responses)):
                    break
                await asyncio.sleep(0.01)
                writer.write(response)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/predict_action"
        command = wrk_command(url, 1, 1, ("predict", "log=1"))
        wrk = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        output, _ = await wrk.communicate()
        await asyncio.gather(*filter(None, answering))
    log = list(read_log(output.decode().splitlines(keepends=True)))
    outcomes = [outcome for _, outcome in log]
    refused = Reply(503, {"x-error-code": "overloaded", "retry-after": "1"}, b"")
    assert outcomes[0] == Reply(200, {"x-error-code": "", "retry-after": ""}, b"")
    assert outcomes[1] == refused
    assert isinstance(outcomes[2], NoReply)
    assert outcomes[3:6] == outcomes[:3]
    assert all(10 <= milliseconds < 1000 for milliseconds, outcome in log if outcome == refused)
