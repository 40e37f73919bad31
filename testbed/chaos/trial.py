"""One fault, in one mode, under the load of clients; and what it was allowed to cost."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

from deployments.inference.protocol import Key
from models.junctions import JUNCTIONS
from serve_app.launcher.deploy import DeployError
from serve_app.launcher.instance import InstanceError
from testbed.chaos.clients import Client, keep_predicting, keep_resetting
from testbed.chaos.faults import Fault
from testbed.chaos.history import History
from testbed.chaos.lineage import Harm, Verdict, judge
from testbed.chaos.stage import Stage

CONNECTIONS = 8
RESET_PERIOD_S = 0.5
PATIENCE_S = 60.0  # for the states to be reachable again


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

    def broken(self) -> list[str]:
        """Return what the system does not keep of its promise, as sentences."""
        complaints = [self.failure] if self.failure else []
        lost, allowed_s = self.verdict.steps(Harm.LOST), self.fault.may_cost.get(self.mode, 0.0)
        if lost and not allowed_s:
            complaints.append(f"{lost} answered steps were lost")
        elif self.verdict.lost_s > allowed_s:
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


class Runs:
    """Hidden states of different fates: stepped all the while, left alone, reset again and again,
    reset once before the fault."""

    def __init__(self, prefix: str) -> None:
        def keys(run: str, n: int) -> list[Key]:
            return [Key(f"{prefix}.{run}", junction) for junction in list(JUNCTIONS)[:n]]

        self.busy = keys("busy", 5)
        self.crowded = keys("crowded", 1)
        self.reset = keys("reset", 2)
        self.still = keys("still", 5)
        self.cleared = keys("cleared", 2)
        self.all = [*self.busy, *self.crowded, *self.reset, *self.still, *self.cleared]
        # of all requests, a third for one key, so that they meet there
        self.loaded = [*self.busy, *self.reset, *self.crowded * 4]


async def run_trial(stage: Stage, fault: Fault, mode: str, seconds: float) -> Result:
    """Deploy, load for ``seconds``, let the fault happen after a third of it, ask for every state.

    The load goes on until the fault is over.

    Raises:
        TimeoutError, DeployError: the system did not become as it has to be before the fault.
    """
    await stage.deploy(fault.replicas)
    stage.moments.clear()
    runs = Runs(f"{fault.name.replace('+', '.')}.{uuid.uuid4().hex[:8]}")
    history = History()
    failure: str | None = None
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Client(stage.url, history))
            for _ in range(CONNECTIONS + 1)
        ]
        await _prepare(clients[0], runs)
        async with _load(clients, runs):
            end = time.monotonic() + seconds
            await asyncio.sleep(seconds / 3)
            try:
                await fault.inflict(stage)
            except (TimeoutError, DeployError, InstanceError) as error:
                failure = f"the system is not as before: {error!r}"
            await asyncio.sleep(max(2.0, end - time.monotonic()))
        silent = await _ask_for_all(clients[0], runs)
    return Result(fault, mode, history, judge(history, stage.moments), silent, failure)


async def _prepare(client: Client, runs: Runs) -> None:
    async with asyncio.timeout(PATIENCE_S):
        for key in (*runs.still, *runs.cleared) * 3:
            await client.predict_until_answered(key)
        while not await client.reset(runs.cleared[0].run):
            pass


@contextlib.asynccontextmanager
async def _load(clients: list[Client], runs: Runs) -> AsyncIterator[None]:
    *predicting, resetting = clients
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for number, client in enumerate(predicting):
            chance = random.Random(number)
            tasks.create_task(keep_predicting(client, runs.loaded, chance, stop))
        tasks.create_task(keep_resetting(resetting, runs.reset[0].run, RESET_PERIOD_S, stop))
        try:
            yield
        finally:
            stop.set()


async def _ask_for_all(client: Client, runs: Runs) -> int:
    """Predict for every key until it is answered; return how many were not."""
    answered = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            for key in runs.all:
                await client.predict_until_answered(key)
                answered += 1
    return len(runs.all) - answered
