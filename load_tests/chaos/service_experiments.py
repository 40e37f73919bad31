"""One fault under the load of every service's clients, and what they saw of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from load_tests.chaos.checker import Harm, check
from load_tests.chaos.clients import ANSWERED
from load_tests.chaos.history import Outcome
from load_tests.chaos.parts import Part, Try
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
from load_tests.chaos.service_faults import FAULTS, ServiceFault
from load_tests.harness.system import FoundSystem
from load_tests.harness.system_under_test import (
    FaultInjectionError,
    SystemUnderTest,
    system_under_test,
)

BEFORE_S = 2.0
_DOCUMENTED = (ANSWERED, FALLBACK, "503")
_BROKEN = ("connection refused", "connection broken")
_NUMBERS = itertools.count(1_000_000_000, 1_000_000)


@dataclass(frozen=True)
class ServiceResult:
    """What a fault has cost.

    Attributes:
        away_s: the longest time without an answer, by service.
        kinds: how many requests had which outcome, over all services.
        lost, missing: answered steps, and acknowledged records, that are gone.
        injected_at: in seconds of Unix time.
        back_s, whole_s: from the fault to the first answer to a prediction sent after it, and to
            the time when every replica ran; infinite if that did not happen.
        failure: why the fault was not what it must be, if it was not.
    """

    fault: ServiceFault
    away_s: dict[str, float]
    slowest_s: float
    kinds: Counter[str]
    lost: int
    missing: int
    injected_at: float
    back_s: float
    whole_s: float
    failure: str | None = None

    def complaints(self, slack_s: float = 0.0) -> list[str]:
        """Return what is worse than it may be, as sentences.

        Args:
            slack_s: added to the time that a service may be away, for a busy machine.
        """
        fault = self.fault
        bounds = {name: fault.exceptions.get(name, fault.max_away_s) for name in self.away_s}
        late = {n: s for n, s in self.away_s.items() if s > bounds[n] + slack_s}
        found = [f"{n} was away for {s:.1f} s, not {bounds[n]:.0f}" for n, s in late.items()]
        if self.lost:
            found.append(f"{self.lost} answered steps are lost, doubled or revived")
        if self.missing:
            found.append(f"{self.missing} acknowledged records are missing")
        allowed = _DOCUMENTED + (_BROKEN if fault.may_break else ())
        if forbidden := [kind for kind in self.kinds if kind not in allowed]:
            found.append(f"clients saw {', '.join(forbidden)}")
        unanswered = self.kinds.total() - self.kinds[ANSWERED]
        if fault.flawless and unanswered:
            found.append(f"{unanswered} requests were not answered by their service")
        if math.isinf(self.whole_s):
            found.append("the system did not become whole again")
        if self.failure:
            found.append(self.failure)
        return found

    def details(self) -> list[str]:
        clock = time.strftime("%H:%M:%S", time.localtime(self.injected_at))
        return [f"{clock}, answered after {self.back_s:.1f} s, whole after {self.whole_s:.1f} s"]

    def row(self) -> dict[str, str]:
        others = [f"{n} x {kind}" for kind, n in self.kinds.items() if kind != ANSWERED]
        return {
            "fault": self.fault.about,
            **{name: f"{seconds:.1f}" for name, seconds in self.away_s.items()},
            "slowest": f"{self.slowest_s:.1f}",
            "lost": f"{self.lost}",
            "missing": f"{self.missing}",
            "outcomes": ", ".join([f"{self.kinds[ANSWERED]} answered", *others]),
        }


async def run_experiment(
    sut: SystemUnderTest, fault: ServiceFault, seconds: float
) -> ServiceResult:
    """Load every service for ``seconds`` and until the system is whole again; inject the fault.

    Raises:
        FaultInjectionError: the system could not be prepared.
    """
    await asyncio.to_thread(sut.prepare, fault.config())
    token = await asyncio.to_thread(sut.log_in)
    record = Record()
    began = time.monotonic()
    async with sending(_streams(sut, token, record)):
        await asyncio.sleep(BEFORE_S)
        injected_at, moment = time.time(), time.monotonic()
        failure = await asyncio.to_thread(_inject, fault, sut)
        injected = time.monotonic()
        await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
        whole = await asyncio.to_thread(sut.wait_until_whole)
        whole_s = time.monotonic() - moment if whole else math.inf
        if not whole:
            sut.served.clear()  # the next experiment deploys
        await asyncio.sleep(BEFORE_S)
        end = time.monotonic()
    services = sorted({each.service for each in record.seen})
    lost = 0
    if record.history.count(Outcome.ANSWERED):
        verdict = check(record.history)
        lost = sum(verdict.steps(harm) for harm in Harm)
    return ServiceResult(
        fault,
        {name: record.away_s(name, moment, end) for name in services},
        max(record.slowest_s(name) for name in services),
        sum((record.counts(name) for name in services), Counter()),
        lost,
        len(await asyncio.to_thread(record.missing, sut.edge.urls())),
        injected_at,
        record.first_answer("inference", injected) - moment,
        whole_s,
        failure,
    )


@contextlib.contextmanager
def _start() -> Iterator[tuple[FoundSystem, Try]]:
    with system_under_test() as sut:
        yield sut, lambda fault, mode, seconds: run_experiment(sut, fault, seconds)


def _inject(fault: ServiceFault, sut: SystemUnderTest) -> str | None:
    try:
        fault.inject(sut)
    except FaultInjectionError as error:
        return str(error)
    return None


def _streams(sut: SystemUnderTest, token: str, record: Record) -> Iterator[Stream]:
    run, urls = uuid.uuid4().hex[:12], sut.edge.urls()
    access = sut.env.get("INFERENCE_TOKEN", "")
    yield Stream("inference", sut.instance.base_url, predictions(run), record, access)
    yield Stream("gateway", urls["gateway"], decisions(f"{run}.gateway"), record, token)
    yield Stream("density", urls["density"], density_forecasts(), record)
    yield Stream("flow", urls["density"], flow_forecasts(), record)
    for kind in ("loans", "cards"):
        yield Stream(kind, urls[kind], new_records(kind, next(_NUMBERS), record), record)


PART = Part(
    """Kills the parts of a whole system one by one, and changes its version, well and badly, under
the load of clients of every service.

The system is started as `make up` does. The exit code is 1 when a service was away for longer than
it may be, clients saw something undocumented, a request failed because of a change, or something
acknowledged is gone.

    make chaos ARGS="services --only front,edge,code,rollback --seconds 8"
""",
    FAULTS,
    _start,
    "longest time without an answer of a service, in seconds",
)
