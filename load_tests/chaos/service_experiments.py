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

from load_tests.chaos.checker import Harm, check
from load_tests.chaos.clients import ANSWERED
from load_tests.chaos.history import Outcome
from load_tests.chaos.parts import Part, Result, Try
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


def judge(
    fault: ServiceFault,
    kinds: Counter[str],
    lost: int,
    missing: int,
    whole_s: float,
) -> Iterator[str]:
    """Yield what is worse than it may be, except how long services were away.

    Args:
        kinds: how many requests had which outcome, over all services.
        lost, missing: answered steps, and acknowledged records, that are gone.
        whole_s: from the fault until every replica ran; infinite if that did not happen.
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
    if math.isinf(whole_s):
        yield "the system did not become whole again"


async def run_experiment(sut: SystemUnderTest, fault: ServiceFault, seconds: float) -> Result:
    """Load every service for ``seconds`` and until the system is whole again; inject the fault.

    Raises:
        FaultInjectionError: the system could not be prepared.
    """
    await asyncio.to_thread(sut.prepare, fault.config())
    token = await asyncio.to_thread(sut.log_in)
    record, failures = Record(), list[str]()
    began = time.monotonic()
    async with sending(_streams(sut, token, record)):
        await asyncio.sleep(BEFORE_S)
        clock, moment = time.strftime("%H:%M:%S"), time.monotonic()
        try:
            await asyncio.to_thread(fault.inject, sut)
        except FaultInjectionError as error:
            failures.append(str(error))
        injected = time.monotonic()
        await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
        whole = await asyncio.to_thread(sut.wait_until_whole)
        whole_s = time.monotonic() - moment if whole else math.inf
        if not whole:
            sut.served.clear()  # the next experiment deploys
        await asyncio.sleep(BEFORE_S)
        end = time.monotonic()
    services = sorted({each.service for each in record.seen})
    away_s = {name: record.away_s(name, moment, end) for name in services}
    kinds = Counter(each.what for each in record.seen)
    lost = 0
    if record.history.count(Outcome.ANSWERED):
        verdict = check(record.history)
        lost = sum(verdict.steps(harm) for harm in Harm)
    missing = len(await asyncio.to_thread(record.missing, sut.edge.urls()))
    back_s = record.first_answer("inference", injected) - moment
    others = [f"{n} x {kind}" for kind, n in kinds.items() if kind != ANSWERED]
    row = {
        "fault": fault.about,
        **{name: f"{seconds:.1f}" for name, seconds in away_s.items()},
        "slowest": f"{max(each.done - each.sent for each in record.seen):.1f}",
        "lost": f"{lost}",
        "missing": f"{missing}",
        "outcomes": ", ".join([f"{kinds[ANSWERED]} answered", *others]),
    }
    return Result(
        {name: (each, fault.allowed_s(name)) for name, each in away_s.items()},
        [*judge(fault, kinds, lost, missing, whole_s), *failures],
        [f"{clock}, answered after {back_s:.1f} s, whole after {whole_s:.1f} s"],
        row,
    )


@contextlib.contextmanager
def _start() -> Iterator[tuple[FoundSystem, Try]]:
    with system_under_test() as sut:
        yield sut, lambda fault, mode, seconds: run_experiment(sut, fault, seconds)


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
