"""Controllers that ask all the time, one simulation run each, and check every answer's step."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import aiohttp

from models.networks.shipped import JUNCTIONS

TIMEOUT_S = 15.0
PAUSE_S = 0.05  # after a failure


@dataclass
class Tally:
    """What has been answered so far.

    Attributes:
        latencies: seconds of each answer since the last look.
        wrong: answers whose hidden state was not one step after the run's last answer.
    """

    answered: int = 0
    latencies: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def take_latencies(self) -> list[float]:
        taken, self.latencies = self.latencies, []
        return taken


class Controllers:
    """So many controllers at work as was last asked for; each that comes begins another run.

    Args:
        url: of the inference service.
    """

    def __init__(self, url: str, tally: Tally) -> None:
        self._url = url
        self._tally = tally
        self._tasks: list[asyncio.Task[None]] = []
        self._begun = 0

    async def __aenter__(self) -> Controllers:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=4),
            timeout=aiohttp.ClientTimeout(TIMEOUT_S),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.become(0)
        await self._session.close()

    @property
    def number(self) -> int:
        return len(self._tasks)

    async def become(self, number: int) -> None:
        """Start or stop controllers; one that stops waits for its answer first."""
        while len(self._tasks) < number:
            self._begun += 1
            self._tasks.append(asyncio.create_task(self._drive(f"controller-{self._begun}")))
        leaving, self._tasks = self._tasks[number:], self._tasks[:number]
        await asyncio.gather(*leaving)

    async def _drive(self, run: str) -> None:
        task = asyncio.current_task()
        steps = dict.fromkeys(JUNCTIONS, 0)
        while task in self._tasks or not any(steps.values()):
            for junction in JUNCTIONS:
                started = time.monotonic()
                try:
                    step = await self._ask(run, junction)
                except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                    self._tally.failed.append(f"{run} {junction}: {error!r}")
                    await asyncio.sleep(PAUSE_S)
                    continue
                self._tally.answered += 1
                self._tally.latencies.append(time.monotonic() - started)
                if step != steps[junction] + 1:
                    self._tally.wrong.append(f"{run} {junction}: {step} after {steps[junction]}")
                steps[junction] = step

    async def _ask(self, run: str, junction: str) -> int:
        body = {"junction_id": junction, "obs_data": [0.5]}
        headers = {"X-Simulation-Run": run}
        url = f"{self._url}/predict_action"
        async with self._session.post(url, json=body, headers=headers) as response:
            text = await response.text()
            if response.status != 200:
                raise ValueError(f"HTTP status {response.status}: {text:.100}")
            return int(response.headers["x-hidden-state-step"])
