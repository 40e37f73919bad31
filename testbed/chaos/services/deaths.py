"""What may die, and for how long that may be noticed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from testbed.chaos.services.house import House, kill

ONE_DEATH_S, FRONT_S, RAY_S = 2.0, 1.0, 30.0
STORE_DOWN_S = 5.0
RECORDS = ("loans", "cards")


@dataclass(frozen=True)
class Death:
    """One thing that happens to a running system.

    Attributes:
        bar_s: longest time for which a service may answer nobody because of it.
        spared: services for which ``bar_s`` does not count, with their own bar.
        may_lose: whether answered steps of hidden states may be lost, in default mode.
        may_break: whether connections of clients may break.
    """

    name: str
    about: str
    inflict: Callable[[House], None]
    bar_s: float = ONE_DEATH_S
    spared: dict[str, float] = field(default_factory=dict)
    may_lose: bool = False
    may_break: bool = False


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


_DEATHS = (
    Death("nothing", "nothing happens", lambda house: None),
    Death("inference", "one of two inference replicas", _kill_replica("inference"), may_lose=True),
    Death("states", "the state actor", _kill("ray::HiddenStates")),
    Death("gateway", "one of two gateway replicas", _kill_replica("gateway")),
    Death("records", "one of two replicas of the loans", _kill_replica("loans")),
    Death("density", "one of two replicas of a forecast", _kill_replica("density")),
    Death("front", "Serve's HAProxy", _kill("haproxy.cfg"), FRONT_S),
    Death("front-manager", "the actor that keeps it", _kill("ray::HAProxyManager"), FRONT_S),
    Death("proxy", "Ray's Python proxy", _kill("ray::ProxyActor")),
    Death("controller", "Serve's controller", _kill("ray::ServeController")),
    Death("edge", "the edge", _kill("edge.cfg"), FRONT_S, may_break=True),
    Death("keeper", "who keeps Ray and the edge", _kill("supervisord")),
    Death("raylet", "Ray's raylet", _kill("/raylet/raylet"), RAY_S, may_lose=True),
    Death("gcs", "Ray's GCS", _kill("/gcs/gcs_server"), RAY_S, may_lose=True),
    Death("ray", "all of Ray", _kill_all_of_ray, RAY_S, may_lose=True),
    Death(
        "store",
        f"Redis, for {STORE_DOWN_S:.0f} s",
        _stop_store,
        spared=dict.fromkeys(RECORDS, STORE_DOWN_S + ONE_DEATH_S),
    ),
)
DEATHS = {each.name: each for each in _DEATHS}
