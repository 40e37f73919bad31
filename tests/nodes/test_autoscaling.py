"""Replicas are added and removed with the load, under clients that check every answer."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from load_tests.chaos.checker import check
from load_tests.chaos.history import History
from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System
from tests.cluster.load import Load

NAME, PREFIX = "inference-scaled", "/scaled"
LEAST, MOST = 1, 3
FEW, MANY = 2, 40
PATIENCE_S = 180.0


async def test_replicas_follow_the_load_no_request_fails_and_every_state_is_exact(system):
    system.deploy(scaled_application())
    history = History()
    try:
        for controllers, replicas in ((FEW, LEAST), (MANY, MOST), (FEW, LEAST)):
            async with AsyncExitStack() as stack:
                for n in range(controllers):
                    run = f"{replicas}.{n}"
                    load = Load(f"{system.url}{PREFIX}", run, n_clients=1, history=history)
                    await stack.enter_async_context(load)
                await until_running(system, replicas)
    finally:
        system.remove(NAME)
    assert len(history.answers) > 1000
    assert history.failures == []
    assert check(history).findings == ()


async def until_running(system: System, replicas: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await asyncio.to_thread(running, system) != replicas:
            await asyncio.sleep(0.5)
        await asyncio.sleep(1)


def running(system: System) -> int:
    deployments = system.instance.dashboard.applications()[NAME]["deployments"].values()
    states = [replica["state"] for each in deployments for replica in each["replicas"]]
    return states.count("RUNNING")


def scaled_application() -> dict[str, Any]:
    """Return the shipped inference between one and three replicas, scaled by windows of seconds.

    A replica reports its load each second, because Serve's default of ten is slow for a test.
    """
    application = shipped_application(
        "inference",
        called=NAME,
        prefix=PREFIX,
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
