"""What replicas tell, and a feed that tells it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deployments.console.replicas import Replica
from deployments.feed.hub import COLLECT_S
from deployments.feed.messages import Contents, Decision, Report, Source
from deployments.feed.publisher import NoFeedError

INFERENCE = Source("inference", "Inference", "replica-1")
SMALL = "300839359"
OBSERVATION = [1.0, 0.0, 1.0, 0.25, 0.5, 0.0, 0.1337, 0.75]


def decision(run: str = "run", step: int = 1, junction: str = SMALL, **other: Any) -> Decision:
    values: dict[str, Any] = {"probabilities": [0.75, 0.25, 0.0, 0.0]}
    values |= {"hidden": np.zeros(128, np.float32)} | other
    return Decision(float(step), run, junction, OBSERVATION, 0, step, **values)


def report(*decisions: Decision, at: float = 0.0, requests: int = 0, **contents: Any) -> Report:
    runs = {each.run: 1 for each in decisions}
    return Report(
        INFERENCE, at, Contents(requests, runs=runs, decisions=list(decisions), **contents)
    )


@dataclass
class FakeFeed:
    """A feed that the test fills.

    Attributes:
        reports: to be collected; an error is raised.
        wanted: the runs that were asked for, each time.
        missing: it cannot be asked.
        dead: it has died, until it is opened again.
    """

    reports: asyncio.Queue[Report | Exception] = field(default_factory=asyncio.Queue)
    wanted: list[list[str]] = field(default_factory=list)
    opened: int = 0
    missing: bool = False
    dead: bool = False

    async def open(self) -> FakeFeed:
        self.opened += 1
        self.dead = False
        return self

    async def check(self) -> None:
        if self.missing:
            raise RuntimeError("it hangs")
        if self.dead:
            raise NoFeedError("the actor has died")

    async def collect(self, watcher: str, runs: Sequence[str]) -> list[Report]:
        await self.check()
        self.wanted.append(list(runs))
        try:
            report = await asyncio.wait_for(self.reports.get(), COLLECT_S)
        except TimeoutError:
            return []
        if isinstance(report, Exception):
            self.dead = True
            raise report
        return [report]


@dataclass
class FakeServe:
    """What Serve says of its replicas."""

    replicas: list[Replica] = field(default_factory=list)
    asked: int = 0

    async def read(self) -> list[Replica]:
        self.asked += 1
        return self.replicas


def shown(event: bytes) -> dict[str, Any]:
    """Return what a server-sent event bears."""
    kind, data = event.decode().rstrip("\n").split("\n")
    assert kind == "event: view"
    value: dict[str, Any] = json.loads(data.removeprefix("data: "))
    return value
