"""What may die in a whole system, by ``kill -9``, and for how long that may be noticed."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from load_tests.chaos.services.event import ONE_DEATH_S, Event
from load_tests.chaos.services.house import House, kill
from load_tests.harness.shipped import shipped_config_but

FRONT_S, RAY_S = 1.0, 30.0
START_S = 6.0  # of a replica that nobody stands in for
STORE_DOWN_S = 5.0
RECORDS = ("loans", "cards")


def _kill(title: str, at_most: int = 1) -> Callable[[House], None]:
    return lambda house: kill(house.find(title)[:at_most])


def _kill_replica(application: str) -> Callable[[House], None]:
    return _kill(f"ray::ServeReplica:{application}:")


def _kill_all_of_ray(house: House) -> None:
    kill([*house.find("ray/core/src/ray/"), *house.find("ray::"), *house.find("/ray start ")])


def _stop_store(house: House) -> None:
    house.redis.kill()
    time.sleep(STORE_DOWN_S)
    house.redis.start()


DEATHS = (
    Event("nothing", "nothing happens", lambda house: None),
    Event("inference", "one of two inference replicas", _kill_replica("inference"), may_lose=True),
    Event(
        "only-inference",
        "the only inference replica",
        _kill_replica("inference"),
        partial(shipped_config_but, "inference", deployment={"num_replicas": 1}),
        START_S,
        may_lose=True,
    ),
    Event("states", "the state actor", _kill("ray::StateActor")),
    Event("gateway", "one of two gateway replicas", _kill_replica("gateway")),
    Event("records", "one of two replicas of the loans", _kill_replica("loans")),
    Event("density", "one of two replicas of a forecast", _kill_replica("density")),
    Event("front", "Serve's HAProxy", _kill("haproxy.cfg"), bar_s=FRONT_S),
    Event(
        "front-manager", "the actor that manages it", _kill("ray::HAProxyManager"), bar_s=FRONT_S
    ),
    Event("proxy", "Ray's Python proxy", _kill("ray::ProxyActor")),
    Event("controller", "Serve's controller", _kill("ray::ServeController")),
    Event("edge", "the edge", _kill("edge.cfg"), bar_s=FRONT_S, may_break=True),
    Event("supervisord", "supervisord", _kill("supervisord")),
    Event("raylet", "Ray's raylet", _kill("/raylet/raylet"), bar_s=RAY_S, may_lose=True),
    Event("gcs", "Ray's GCS", _kill("/gcs/gcs_server"), bar_s=RAY_S, may_lose=True),
    Event("ray", "all of Ray", _kill_all_of_ray, bar_s=RAY_S, may_lose=True),
    Event(
        "store",
        f"Redis, for {STORE_DOWN_S:.0f} s",
        _stop_store,
        spared=dict.fromkeys(RECORDS, STORE_DOWN_S + ONE_DEATH_S),
    ),
)
