"""Raises the load until replicas are added, and lowers it until they are removed.

A separate Ray cluster serves the shipped inference on one to three replicas. Controllers that ask
all the time are few at first, then many until there are three replicas, then few until one is left.
No request may fail, and every answer must continue from the hidden state of the one before.

    make autoscaling ARGS="--plot reports/autoscaling.png"
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from matplotlib.figure import Figure
from rich.console import Console

from load_tests.chaos.checker import Verdict, check
from load_tests.chaos.clients import PAUSE_AFTER_FAILURE_S, Client
from load_tests.chaos.history import History, Key, Outcome
from load_tests.harness.command_line import save_figure
from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System, running_system
from models.networks.shipped import JUNCTIONS

LEAST, MOST = 1, 3
FEW, MANY = 2, 48
CALM_S = 10.0
PATIENCE_S = 180.0
TIMEOUT_S = 15.0
PERIOD_S = 1.0

console = Console(highlight=False, soft_wrap=True)


class AutoscalingError(RuntimeError):
    """The replicas did not follow the load in time."""


@dataclass(frozen=True)
class Second:
    """What happened in one second, ``at_s`` since the start."""

    at_s: float
    controllers: int
    replicas: int
    requests_per_s: float
    p50_ms: float
    p95_ms: float


@dataclass
class Scaling:
    """An application under a load that rises and falls.

    Attributes:
        url: of the application.
        report: is called with each second.
    """

    system: System
    application: str
    url: str
    report: Callable[[Second], None] = lambda _: None
    history: History = field(default_factory=History)
    seconds: list[Second] = field(default_factory=list)
    _controllers: list[asyncio.Task[None]] = field(default_factory=list)
    _started: int = 0

    async def run(self, many: int, calm_s: float) -> Verdict:
        """Raise the load until all replicas run, lower it until one is left; check the answers.

        Args:
            many: controllers at the peak.
            calm_s: how long the load continues after the replicas have followed it.

        Raises:
            AutoscalingError: the replicas did not follow.
        """
        async with (
            Client(self.url, self.history, many, TIMEOUT_S) as client,
            asyncio.TaskGroup() as group,  # ends with an error when the observation fails
        ):
            observing = group.create_task(self._observe())
            try:
                for number, replicas in ((FEW, LEAST), (many, MOST), (FEW, LEAST)):
                    await self._set_controllers(number, client)
                    await self._wait_for_replicas(replicas)
                    await asyncio.sleep(calm_s)
            finally:
                observing.cancel()
                await self._set_controllers(0, client)
        return check(self.history)

    async def _set_controllers(self, number: int, client: Client) -> None:
        """Start or stop controllers; one that stops waits for its answer first."""
        while len(self._controllers) < number:
            self._started += 1
            controller = self._control(f"controller-{self._started}", client)
            self._controllers.append(asyncio.create_task(controller))
        leaving, self._controllers = self._controllers[number:], self._controllers[:number]
        await asyncio.gather(*leaving)

    async def _control(self, run: str, client: Client) -> None:
        task = asyncio.current_task()
        while task in self._controllers:
            for junction in JUNCTIONS:
                asked = await client.predict(Key(run, junction))
                if asked.outcome is not Outcome.ANSWERED:
                    await asyncio.sleep(PAUSE_AFTER_FAILURE_S)

    async def _wait_for_replicas(self, number: int) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not self.seconds or self.seconds[-1].replicas != number:
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AutoscalingError(
                f"There were not {number} replicas within {PATIENCE_S:.0f} s."
            ) from None

    async def _observe(self) -> None:
        began, seen = time.monotonic(), 0
        while True:
            started = time.monotonic()
            await asyncio.sleep(PERIOD_S)
            replicas = await asyncio.to_thread(self._replicas)
            new, seen = self.history.predictions[seen:], len(self.history.predictions)
            latencies = [each.done - each.sent for each in new]
            cuts = statistics.quantiles(latencies, n=20) if len(latencies) > 1 else [0.0] * 19
            now = time.monotonic()
            self.seconds.append(
                Second(
                    at_s=now - began,
                    controllers=len(self._controllers),
                    replicas=replicas,
                    requests_per_s=len(latencies) / (now - started),
                    p50_ms=cuts[9] * 1000,
                    p95_ms=cuts[18] * 1000,
                )
            )
            self.report(self.seconds[-1])

    def _replicas(self) -> int:
        applications = self.system.instance.dashboard.applications()
        deployments = applications[self.application]["deployments"].values()
        return sum(
            replica["state"] == "RUNNING" for each in deployments for replica in each["replicas"]
        )


def scaled_application(name: str, prefix: str) -> dict[str, Any]:
    """Return the shipped inference between one and three replicas, scaled by windows of seconds.

    A replica reports its load each second, because Serve's default of ten is slow for a test.
    """
    application = shipped_application(
        "inference",
        called=name,
        prefix=prefix,
        env={"RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "1"},
    )
    (deployment,) = application["deployments"]
    del deployment["num_replicas"]
    deployment["autoscaling_config"] = {
        "min_replicas": LEAST,
        "max_replicas": MOST,
        "target_ongoing_requests": 1,  # a busy client keeps few requests in progress
        "look_back_period_s": 11,
        "upscale_delay_s": 4,
        "downscale_delay_s": 5,
    }
    return application


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make autoscaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--plot", type=Path, help="write a picture of the run")
    options = parser.parse_args()
    application = scaled_application("inference", "/")
    with running_system(application) as system:
        scaling = Scaling(system, "inference", system.url, _print_second)
        trouble = None
        try:
            verdict = asyncio.run(scaling.run(MANY, CALM_S))
        except* (AutoscalingError, httpx.HTTPError) as errors:
            trouble = str(errors.exceptions[0])
    if trouble:
        console.print(trouble, style="red", markup=False)
        return 1
    if options.plot:
        plot(options.plot, scaling.seconds)
    return _print_verdict(scaling, verdict)


def _print_second(second: Second) -> None:
    console.print(
        f"{second.at_s:6.0f} s  {second.controllers:3} controllers  {second.replicas} replicas"
        f"  {second.requests_per_s:5.0f} req/s  p50 {second.p50_ms:.1f} ms"
        f"  p95 {second.p95_ms:.1f} ms"
    )


def _print_verdict(scaling: Scaling, verdict: Verdict) -> int:
    history = scaling.history
    for case in [*(each.error for each in history.failures), *map(str, verdict.findings)][:10]:
        console.print(case, style="red", markup=False)
    answered = history.count(Outcome.ANSWERED)
    console.print(
        f"{answered} requests answered, {len(history.failures)} failed,"
        f" {len(verdict.findings)} wrong states"
    )
    return 1 if history.failures or verdict.findings else 0


def plot(path: Path, seconds: Sequence[Second]) -> None:
    """Draw load, replicas and latency over time; the suffix is the format."""
    figure = Figure(figsize=(7.2, 5.0), layout="constrained")
    load, replicas, latency = figure.subplots(3, 1, sharex=True)
    at = [each.at_s for each in seconds]
    load.step(at, [each.controllers for each in seconds], where="post", color="#d95f02")
    load.set_ylabel("controllers")
    rate = load.twinx()
    rate.plot(at, [each.requests_per_s for each in seconds], color="#1b9e77", lw=1)
    rate.set_ylabel("requests/s", color="#1b9e77")
    replicas.step(at, [each.replicas for each in seconds], where="post", color="#7570b3")
    replicas.set_ylabel("replicas")
    replicas.set_ylim(0, max(each.replicas for each in seconds) + 0.5)
    latency.plot(at, [each.p50_ms for each in seconds], label="p50", color="#1f78b4")
    latency.plot(at, [each.p95_ms for each in seconds], label="p95", color="#a6cee3")
    latency.set_ylabel("latency, ms")
    latency.set_ylim(bottom=0)
    latency.legend(frameon=False)
    latency.set_xlabel("seconds")
    for axes in (load, replicas, latency):
        axes.spines["top"].set_visible(False)
    save_figure(figure, path)


if __name__ == "__main__":
    sys.exit(main())
