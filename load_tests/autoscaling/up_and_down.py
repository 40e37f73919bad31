"""Load that grows and shrinks, and replicas that must follow it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from load_tests.autoscaling.controllers import Controllers, Tally
from load_tests.autoscaling.watch import Look, Watch
from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System

LEAST, MOST = 1, 3
FEW = 2
PATIENCE_S = 180.0


class AutoscalingError(RuntimeError):
    """The replicas did not follow the load in time."""


def scaled_application(name: str, prefix: str) -> dict[str, Any]:
    """Return the shipped inference between one and three replicas, by windows of seconds.

    A replica reports its load each second; Serve's own ten are slow for a test.
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
        "target_ongoing_requests": 2,  # a busy client keeps few requests on their way
        "look_back_period_s": 11,
        "upscale_delay_s": 4,
        "downscale_delay_s": 5,
    }
    return application


async def up_and_down(
    system: System,
    application: str,
    url: str,
    many: int,
    calm_s: float,
    report: Callable[[Look], None],
) -> tuple[Tally, list[Look]]:
    """Drive the load up until all replicas are there, and down until one is left.

    Args:
        url: of the application.
        many: controllers at the height of it.
        calm_s: for so long the load goes on when the replicas have followed it.

    Raises:
        AutoscalingError: the replicas did not follow.
    """
    tally = Tally()
    async with Controllers(url, tally) as controllers:
        watch = Watch(system, application, controllers, tally)
        async with asyncio.TaskGroup() as group:  # ends with an error when the watch dies
            watching = group.create_task(watch.run(report))
            for number, replicas in ((FEW, LEAST), (many, MOST), (FEW, LEAST)):
                await controllers.become(number)
                await _follow(watch, replicas)
                await asyncio.sleep(calm_s)
            watching.cancel()
    return tally, watch.looks


async def _follow(watch: Watch, replicas: int) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not watch.looks or watch.looks[-1].replicas != replicas:
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AutoscalingError(f"no {replicas} replicas within {PATIENCE_S:.0f} s") from None
