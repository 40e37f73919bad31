"""One fault, in one mode, under the load of clients; and whether it broke a promise."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx

from load_tests.chaos.checker import Harm, Verdict, check
from load_tests.chaos.clients import PATIENCE_S, Client, Load
from load_tests.chaos.history import History, Key, Outcome
from load_tests.chaos.parts import Part, Result, Try
from load_tests.chaos.state_faults import FAULTS, MODES, ApplicationUnderTest, StateFault
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system import QUICK, FoundSystem, running_system
from load_tests.harness.system_under_test import FaultInjectionError
from serve_app.errors import DeployError, InstanceError

DURABLE_S = 5.0  # that `durable` may add: a response waits for the store, and for who copies to it

_ERRORS = (TimeoutError, FaultInjectionError, DeployError, InstanceError, httpx.HTTPError)


def judge(
    fault: StateFault,
    mode: str,
    history: History,
    verdict: Verdict,
    away_s: float = 0.0,
    silent: int = 0,
    failure: str | None = None,
) -> Result:
    """Return the result of an experiment, with the promises that the system broke.

    Args:
        away_s: the longest time without an answer for a run that was stepped all the time.
        silent: keys without an answer within ``PATIENCE_S`` after the load.
        failure: why the system is not as before the fault, if it is not.
    """
    broken = [failure] if failure else []
    broken += [f"{n} steps were {each.value}" for each in Harm if (n := verdict.steps(each))]
    if silent:
        broken.append(f"{silent} states were not answered for again")
    allowed_s = fault.max_away_s + DURABLE_S * (mode == "durable")
    row = {
        "fault": fault.name,
        "mode": mode,
        "requests": f"{len(history.predictions)}",
        **{outcome.value: f"{history.count(outcome)}" for outcome in Outcome},
        "away s": f"{away_s:.2f}",
        **{each.value: f"{verdict.steps(each)}" for each in Harm if each != Harm.WRONG},
    }
    details = [str(finding) for finding in verdict.findings[:3]]
    return Result({"a run": (away_s, allowed_s)}, broken, details, row)


async def run_experiment(
    app: ApplicationUnderTest, fault: StateFault, mode: str, seconds: float
) -> Result:
    """Deploy, load for ``seconds``, inject the fault after a third of it, and step every state.

    The load continues until the fault is over.

    Returns:
        The result, also when the system could not be prepared or did not recover.
    """
    load = Load(f"{fault.name}.{uuid.uuid4().hex[:8]}")
    history = History()
    silent, failure = 0, None
    try:
        await asyncio.to_thread(app.deploy, fault.replicas)
        async with Client(app.url, history) as client:
            async with asyncio.timeout(PATIENCE_S):
                await load.prepare(client)
            async with load.running(app.url, history):
                failure = await _inject(fault, app, seconds)
            silent = await _step_all(client, load.keys)
    except _ERRORS as error:
        failure = f"the experiment could not begin: {error!r}"
    if history.count(Outcome.ANSWERED):
        verdict = await asyncio.to_thread(check, history)
    else:
        verdict, failure = Verdict(), failure or "no prediction was answered"
    away_s = max(history.away_s(run) for run in load.busy)
    return judge(fault, mode, history, verdict, away_s, silent, failure)


@contextlib.contextmanager
def _start() -> Iterator[tuple[FoundSystem, Try]]:
    with tempfile.TemporaryDirectory(prefix="gwc-", dir="/tmp") as folder:
        redis = RedisServer(Path(folder)).start()
        try:
            with running_system(env={"STORE_URL": redis.url, **QUICK}) as system:

                async def try_out(fault: StateFault, mode: str, seconds: float) -> Result:
                    app = ApplicationUnderTest(system, mode, {"durability": mode}, redis)
                    return await run_experiment(app, fault, mode, seconds)

                yield system, try_out
        finally:
            redis.stop()


async def _inject(fault: StateFault, app: ApplicationUnderTest, seconds: float) -> str | None:
    """Inject the fault within so many seconds; return what went wrong otherwise."""
    failure = None
    end = time.monotonic() + seconds
    await asyncio.sleep(seconds / 3)
    try:
        await asyncio.to_thread(fault.inject, app)
    except _ERRORS as error:
        failure = f"the system is not as before: {error!r}"
    await asyncio.sleep(max(2.0, end - time.monotonic()))
    return failure


async def _step_all(client: Client, keys: Sequence[Key]) -> int:
    """Predict for every key until it is answered; return how many were not."""
    answered = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            for key in keys:
                await client.predict_until_answered(key)
                answered += 1
    return len(keys) - answered


PART = Part(
    """Kills, pauses and changes parts of a system under load, and counts what it costs over HTTP:
answered steps that were lost, steps that were made twice, states that survived a reset, and the
longest time without an answer for a run. No step may be lost in any mode.

The exit code is 1 when a promise of docs/hidden-states.md is broken.

    make chaos ARGS="states --only replica,application --modes memory --seconds 12"
""",
    FAULTS,
    _start,
    "steps lost, doubled, revived; away: longest time without an answer for a run",
    MODES,
)
