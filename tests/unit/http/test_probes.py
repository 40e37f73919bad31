"""What the probes say of checks that fail, hang and recover; the timings in virtual time."""

import asyncio
import contextvars
from collections import Counter

import httpx
import pytest
from fastapi import FastAPI

from deployments.http.errors import render_error
from deployments.http.fast_routes import FastRoutes
from deployments.http.probes import (
    DEADLINE_S,
    OLD_S,
    PATIENCE_S,
    PAUSE_S,
    PERIOD_S,
    Check,
    Probes,
    store_check,
)
from deployments.store import StoreUnavailable
from tests.support.virtual_time import virtual_time
from tests.unit.http import apps

TROUBLE = "The store does not serve."
GONE = {"store": TROUBLE}
THERE = {"store": "ok"}
OUTAGE_S = 2 * DEADLINE_S + PAUSE_S  # of a store that hangs, until it is told


class FakeStore:
    """A store that obeys the test.

    Attributes:
        slow_s: how long each call takes.
        errors: raised by the next calls.
    """

    def __init__(self) -> None:
        self.slow_s = 0.0
        self.errors: list[Exception] = []
        self.calls = 0

    async def get(self, table: str, key: str) -> bytes | None:
        self.calls += 1
        await asyncio.sleep(self.slow_s)
        if self.errors:
            raise self.errors.pop()
        return None


@pytest.fixture
def store():
    return FakeStore()


@pytest.fixture
def readiness(store):
    return Probes(checks={"store": store_check(store)})


class TestReadiness:
    @virtual_time
    async def test_however_often_it_is_asked_the_store_is_once_a_second(self, store, readiness):
        for _ in range(1000):
            await readiness.results()
            await asyncio.sleep(0.01)
        assert 9 <= store.calls <= 11
        calls = store.calls
        await asyncio.sleep(60)
        assert store.calls == calls, "no client asks"

    @virtual_time
    async def test_two_failures_are_told_and_one_success_ends_that(self, store, readiness):
        store.errors = [StoreUnavailable("connection refused to 10.0.0.7")] * 2
        assert await readiness.results() == GONE, "with no address in it"
        await asyncio.sleep(PERIOD_S)
        assert await readiness.results() == THERE

    @virtual_time
    async def test_a_store_that_hangs_holds_nobody_up_and_is_told_in_time(self, store, readiness):
        loop = asyncio.get_running_loop()
        await readiness.results()
        await asyncio.sleep(PERIOD_S)
        store.slow_s = 3600
        began, told, longest = loop.time(), THERE, 0.0
        while told == THERE:
            asked = loop.time()
            told = dict(await readiness.results())
            longest = max(longest, loop.time() - asked)
        assert longest <= PATIENCE_S
        assert OUTAGE_S <= loop.time() - began <= OUTAGE_S + PATIENCE_S

    @virtual_time
    async def test_a_verdict_of_yesterday_is_not_given_for_one_of_now(self, store, readiness):
        await readiness.results()
        await asyncio.sleep(OLD_S)
        store.slow_s = 3600
        assert await readiness.results() == GONE

    @virtual_time
    async def test_a_look_is_no_part_of_the_request_that_began_it(self):
        request = contextvars.ContextVar("request", default="none")
        seen: list[str] = []
        readiness = Probes(checks={"model": Check(lambda: seen.append(request.get()), TROUBLE)})
        request.set("cancelled by Serve when its client goes")
        await readiness.results()
        assert seen == ["none"]

    @virtual_time
    async def test_checks_are_made_at_once_and_named_each(self):
        calls: Counter[str] = Counter()

        async def hang():
            calls["hang"] += 1
            await asyncio.sleep(3600)

        def defect():
            calls["defect"] += 1
            raise RuntimeError("a secret")

        readiness = Probes(
            checks={
                "model": Check(lambda: True, "No model is loaded."),
                "states": Check(lambda: False, "A state actor does not answer."),
                "store": Check(hang, TROUBLE),
                "key": Check(defect, "Tokens cannot be signed."),
            }
        )
        assert await readiness.results() == {
            "model": "ok",
            "states": "A state actor does not answer.",
            "store": TROUBLE,
            "key": "Tokens cannot be signed.",
        }
        assert asyncio.get_running_loop().time() == pytest.approx(OUTAGE_S)
        assert calls == {"hang": 2, "defect": 2}


def client_of(probes: Probes, prefix: str = "", max_waiting: int = 1) -> httpx.AsyncClient:
    app = FastAPI()
    routes = FastRoutes(app, render_error, max_waiting)
    probes.add_to(routes, prefix)
    routes.add("GET", "/anything", probes.livez)
    return apps.client_of(app)


class TestRoutes:
    async def test_who_has_all_is_ready_and_who_answers_alive(self, store):
        client = client_of(Probes(checks={"store": store_check(store)}))
        ready, alive = await client.get("/readyz"), await client.get("/livez")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready", "checks": THERE})
        assert alive.json() == {"status": "alive", "checks": {"background_tasks": "ok"}}

    @pytest.mark.parametrize(
        ("required", "status", "verdict"), [(True, 503, "not ready"), (False, 200, "ready")]
    )
    async def test_who_lacks_something_is_alive_and_not_ready_if_it_is_required(
        self, required, status, verdict
    ):
        checks = {"store": Check(lambda: False, TROUBLE, required=required)}
        client = client_of(Probes(checks=checks))
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()) == (status, {"status": verdict, "checks": GONE})
        assert (await client.get("/livez")).status_code == 200

    async def test_who_has_lost_a_background_task_is_dead_and_says_which(self):
        def check_health():
            raise RuntimeError("the metrics are not published any more")

        answer = await client_of(Probes(check_health)).get("/livez")
        assert answer.status_code == 503
        assert answer.json() == {
            "status": "dead",
            "checks": {"background_tasks": "the metrics are not published any more"},
        }

    async def test_load_makes_nobody_dead_or_unready(self):
        client = client_of(Probes(), "/api/cards", max_waiting=0)
        assert (await client.get("/anything")).status_code == 503
        assert (await client.get("/api/cards/livez")).status_code == 200
        assert (await client.get("/api/cards/readyz")).status_code == 200
