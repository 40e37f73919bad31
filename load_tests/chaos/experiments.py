"""One fault of a whole system under the load of clients, and what they saw of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from load_tests.chaos.checker import Harm, Verdict, check
from load_tests.chaos.clients import ANSWERED, PATIENCE_S, Client, Load
from load_tests.chaos.faults import Fault
from load_tests.chaos.history import History, Outcome
from load_tests.chaos.requests import (
    FALLBACK,
    Record,
    Stream,
    decisions,
    density_forecasts,
    flow_forecasts,
    new_records,
    predictions,
    sending,
)
from load_tests.harness.shipped import config_but
from load_tests.harness.system_under_test import FaultInjectionError, SystemUnderTest

BEFORE_S = 2.0
DURABLE_S = 5.0  # that `durable` may add: a response waits for the store, and for who copies to it
_DOCUMENTED = (ANSWERED, FALLBACK, "503")
_BROKEN = ("connection refused", "connection broken")
_NUMBERS = itertools.count(1_000_000_000, 1_000_000)


@dataclass(frozen=True)
class Result:
    """What a fault has cost.

    Attributes:
        away: by the name of what was without an answer, for how many seconds at most, and for how
            many it may be.
        broken: what else is worse than it may be, as sentences.
        details: what helps to find the cause, as sentences.
        row: cells by column.
    """

    away: Mapping[str, tuple[float, float]]
    broken: Sequence[str]
    details: Sequence[str]
    row: Mapping[str, str]

    def complaints(self, slack_s: float = 0.0) -> list[str]:
        """Return what is worse than it may be, as sentences.

        Args:
            slack_s: added to the time without an answer, for a busy machine.
        """
        late = [
            f"{name} was away for {seconds:.1f} s, not {allowed_s:g}"
            for name, (seconds, allowed_s) in self.away.items()
            if seconds > allowed_s + slack_s
        ]
        return [*late, *self.broken]


class Course(NamedTuple):
    """How an experiment went; times in seconds of the monotonic clock.

    Attributes:
        clock: the time of day of the fault.
        begun, injected: when the fault began, and when it had its effect.
        ended: when the system had been whole for a while.
        whole_s: from the fault until every replica ran; infinite if that did not happen.
        failure: why the fault was not what it must be, if it was not.
    """

    clock: str
    begun: float
    injected: float
    ended: float
    whole_s: float
    failure: str = ""

    def complaints(self) -> Iterator[str]:
        if math.isinf(self.whole_s):
            yield "the system did not become whole again"
        if self.failure:
            yield self.failure


async def run_experiment(
    sut: SystemUnderTest, fault: Fault, seconds: float, mode: str = ""
) -> Result:
    """Inject the fault under load, for ``seconds`` and until the system is whole again.

    Args:
        mode: of the durability of hidden states, under the load of their clients; without one, the
            clients are those of every service.

    Raises:
        FaultInjectionError: the system could not be prepared.
        TimeoutError: it did not answer before the fault.
    """
    config = fault.config()
    if mode:
        config = config_but(config, "inference", args={"durability": mode})
    await asyncio.to_thread(sut.prepare, config)
    load = States(sut, fault, mode) if mode else Services(sut, fault)
    failure = ""
    async with load.running():
        began = time.monotonic()
        await asyncio.sleep(BEFORE_S)
        clock, begun = time.strftime("%H:%M:%S"), time.monotonic()
        try:
            await asyncio.to_thread(fault.inject, sut)
        except FaultInjectionError as error:
            failure = str(error)
        injected = time.monotonic()
        await asyncio.sleep(max(0.0, began + seconds - injected))
        whole = await asyncio.to_thread(sut.wait_until_whole)
        whole_s = time.monotonic() - begun if whole else math.inf
        if not whole:
            sut.served.clear()  # the next experiment deploys
        await asyncio.sleep(BEFORE_S)
        ended = time.monotonic()
    return await load.result(Course(clock, begun, injected, ended, whole_s, failure))


class Services:
    """Clients of every service, which ask ten times a second whatever becomes of it."""

    def __init__(self, sut: SystemUnderTest, fault: Fault) -> None:
        self._sut, self._fault, self._record = sut, fault, Record()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        token = await asyncio.to_thread(self._sut.log_in)
        async with sending(self._streams(token)):
            yield

    def _streams(self, token: str) -> Iterator[Stream]:
        run, urls, record = uuid.uuid4().hex[:12], self._sut.edge.urls(), self._record
        access = self._sut.env.get("INFERENCE_TOKEN", "")
        yield Stream("inference", self._sut.instance.base_url, predictions(run), record, access)
        yield Stream("gateway", urls["gateway"], decisions(f"{run}.gateway"), record, token)
        yield Stream("density", urls["density"], density_forecasts(), record)
        yield Stream("flow", urls["density"], flow_forecasts(), record)
        for kind in ("loans", "cards"):
            yield Stream(kind, urls[kind], new_records(kind, next(_NUMBERS), record), record)

    async def result(self, course: Course) -> Result:
        fault, record = self._fault, self._record
        services = sorted({each.service for each in record.seen})
        away_s = {name: record.away_s(name, course.begun, course.ended) for name in services}
        kinds = Counter(each.what for each in record.seen)
        verdict = check(record.history) if record.history.count(Outcome.ANSWERED) else Verdict()
        lost = sum(verdict.steps(harm) for harm in Harm)
        missing = len(await asyncio.to_thread(record.missing, self._sut.edge.urls()))
        back_s = record.first_answer("inference", course.injected) - course.begun
        others = [f"{n} x {kind}" for kind, n in kinds.items() if kind != ANSWERED]
        row = {
            "fault": fault.about,
            **{name: f"{seconds:.1f}" for name, seconds in away_s.items()},
            "slowest": f"{max(each.done - each.sent for each in record.seen):.1f}",
            "lost": f"{lost}",
            "missing": f"{missing}",
            "outcomes": ", ".join([f"{kinds[ANSWERED]} answered", *others]),
        }
        whole = f"answered after {back_s:.1f} s, whole after {course.whole_s:.1f} s"
        return Result(
            {name: (each, fault.allowed_s(name)) for name, each in away_s.items()},
            [*judge_services(fault, kinds, lost, missing), *course.complaints()],
            [f"{course.clock}, {whole}"],
            row,
        )


def judge_services(
    fault: Fault, kinds: Counter[str], lost: int = 0, missing: int = 0
) -> Iterator[str]:
    """Yield what is worse than it may be, except how long services were away.

    Args:
        kinds: how many requests had which outcome, over all services.
        lost, missing: answered steps, and acknowledged records, that are gone.
    """
    if lost:
        yield f"{lost} answered steps are lost, doubled or revived"
    if missing:
        yield f"{missing} acknowledged records are missing"
    allowed = _DOCUMENTED + (_BROKEN if fault.may_break else ())
    if forbidden := [kind for kind in kinds if kind not in allowed]:
        yield f"clients saw {', '.join(forbidden)}"
    unanswered = kinds.total() - kinds[ANSWERED]
    if fault.flawless and unanswered:
        yield f"{unanswered} requests were not answered by their service"


class States:
    """Clients of hidden states, which are stepped once more at the end."""

    def __init__(self, sut: SystemUnderTest, fault: Fault, mode: str) -> None:
        self._sut, self._fault, self._mode = sut, fault, mode
        self._history, self._silent = History(), 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        url, token = self._sut.instance.base_url, self._sut.env.get("INFERENCE_TOKEN", "")
        self._load = Load(f"{self._fault.name}.{uuid.uuid4().hex[:8]}")
        async with Client(url, self._history, token=token) as client:
            async with asyncio.timeout(PATIENCE_S):
                await self._load.prepare(client)
            async with self._load.running(url, self._history, token):
                yield
            keys = [*self._load.keys]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    while keys:
                        await client.predict_until_answered(keys[-1])
                        keys.pop()
            self._silent = len(keys)

    async def result(self, course: Course) -> Result:
        history, verdict = self._history, await asyncio.to_thread(check, self._history)
        away_s = max(history.away_s(run) for run in self._load.busy)
        allowed_s = self._fault.allowed_s("inference") + DURABLE_S * (self._mode == "durable")
        broken = [*judge_states(verdict, self._silent), *course.complaints()]
        is_kept = not broken and away_s <= allowed_s
        row = {
            "fault": self._fault.name,
            "mode": self._mode,
            "requests": f"{len(history.predictions)}",
            **{outcome.value: f"{history.count(outcome)}" for outcome in Outcome},
            "away s": f"{away_s:.2f}",
            **{each.value: f"{verdict.steps(each)}" for each in Harm if each != Harm.WRONG},
            "promise": "[green]kept[/green]" if is_kept else "[red]broken[/red]",
        }
        details = [str(finding) for finding in verdict.findings[:3]]
        return Result({"a run": (away_s, allowed_s)}, broken, details, row)


def judge_states(verdict: Verdict, silent: int = 0) -> Iterator[str]:
    """Yield the promises that the system broke, except how long a run was away.

    Args:
        silent: states without an answer within ``PATIENCE_S`` after the load.
    """
    for harm in Harm:
        if steps := verdict.steps(harm):
            yield f"{steps} steps were {harm.value}"
    if silent:
        yield f"{silent} states were not answered for again"
