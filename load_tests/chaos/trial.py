"""One fault, in one mode, under the load of clients; and what it was allowed to cost."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import httpx

from deployments.stateful.protocol import Key
from load_tests.chaos.clients import Client
from load_tests.chaos.faults import Fault
from load_tests.chaos.history import History
from load_tests.chaos.lineage import Harm, Verdict, judge
from load_tests.chaos.loads import Load, MixedLoad
from load_tests.chaos.stage import Stage
from serve_app.errors import DeployError, InstanceError

PATIENCE_S = 60.0  # for the states to be reachable again

_TROUBLE = (TimeoutError, DeployError, InstanceError, httpx.HTTPError)


@dataclass(frozen=True)
class Result:
    """What a trial has shown.

    Attributes:
        silent: keys that no answer was got for within ``PATIENCE_S`` after the load.
        failure: why the system is not as before the fault, if it is not.
    """

    fault: Fault
    mode: str
    history: History
    verdict: Verdict
    silent: int
    failure: str | None = None

    def broken(self, slack_s: float = 0.0) -> list[str]:
        """Return what the system does not keep of its promise, as sentences.

        Args:
            slack_s: so much longer before a fault that costs steps they may have been answered, on
                a machine that has others to serve.
        """
        complaints = [self.failure] if self.failure else []
        lost, allowed_s = self.verdict.steps(Harm.LOST), self.fault.may_cost.get(self.mode, 0.0)
        if lost and not allowed_s:
            complaints.append(f"{lost} answered steps were lost")
        elif self.verdict.lost_s > allowed_s + slack_s:
            complaints.append(
                f"a lost step was answered {1e3 * self.verdict.lost_s:.0f} ms before the fault, "
                f"not {1e3 * allowed_s:.0f}"
            )
        for harm in (Harm.DOUBLED, Harm.REVIVED):
            if steps := self.verdict.steps(harm):
                complaints.append(f"{steps} steps were {harm.value}")
        if self.silent:
            complaints.append(f"{self.silent} states were not answered for again")
        return complaints


async def run_trial(
    stage: Stage,
    fault: Fault,
    mode: str,
    seconds: float,
    load_of: Callable[[str], Load] = MixedLoad,
) -> Result:
    """Deploy, load for ``seconds``, let the fault happen after a third of it, ask for every state.

    The load goes on until the fault is over.

    Args:
        load_of: makes the load from a name for its runs.

    Returns:
        The result, also when the system did not become as it has to be for the trial, or after it.
    """
    load = load_of(f"{fault.name.replace('+', '.')}.{uuid.uuid4().hex[:8]}")
    history = History()
    silent, failure = 0, None
    try:
        await stage.deploy(fault.replicas)
        stage.moments.clear()
        async with Client(stage.url, history) as client:
            async with asyncio.timeout(PATIENCE_S):
                await load.prepare(client)
            async with _under_way(load, stage.url, history):
                failure = await _inflict(fault, stage, seconds)
            silent = await _ask_for_all(client, load.keys)
    except _TROUBLE as error:
        failure = f"the trial could not begin: {error!r}"
    return Result(fault, mode, history, judge(history, stage.moments), silent, failure)


async def _inflict(fault: Fault, stage: Stage, seconds: float) -> str | None:
    """Let the fault happen within so many seconds; return what went wrong otherwise."""
    failure = None
    end = time.monotonic() + seconds
    await asyncio.sleep(seconds / 3)
    try:
        await fault.inflict(stage)
    except _TROUBLE as error:
        failure = f"the system is not as before: {error!r}"
    await asyncio.sleep(max(2.0, end - time.monotonic()))
    return failure


@contextlib.asynccontextmanager
async def _under_way(load: Load, url: str, history: History) -> AsyncIterator[None]:
    stop = asyncio.Event()
    clients: list[Client] = []

    def connect(connections: int = 1) -> Client:
        clients.append(Client(url, history, connections))
        return clients[-1]

    tasks = list(load.tasks(connect, stop))
    async with contextlib.AsyncExitStack() as stack:
        for client in clients:
            await stack.enter_async_context(client)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(task) for task in tasks]
            try:
                yield
            finally:
                stop.set()
                _, late = await asyncio.wait(running, timeout=PATIENCE_S)
                for task in late:
                    task.cancel()


async def _ask_for_all(client: Client, keys: Sequence[Key]) -> int:
    """Predict for every key until it is answered; return how many were not."""
    answered = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            for key in keys:
                await client.predict_until_answered(key)
                answered += 1
    return len(keys) - answered
