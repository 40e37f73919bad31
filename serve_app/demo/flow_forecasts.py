"""Flow forecasts of each junction, once a simulated minute, for the console."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from greenwave.client import Client, GreenwaveError, Sample
from models.networks.shipped import JUNCTIONS

if TYPE_CHECKING:
    from lab.sim.detectors import Minute

MINUTE_S = 60
DAY_S = 24 * 3600


class Watch(Protocol):
    """Detectors on the approaches, as :class:`~lab.sim.detectors.Detectors`."""

    def look(self) -> None: ...

    def minute(self) -> Mapping[str, Minute]: ...


class FlowForecasts:
    """Sends detector counts to the forecast, until a call fails.

    The demo is about signals: it runs without forecasts, too.

    Args:
        now_s: seconds since the epoch. The simulated day is the one before: samples must not be
            in the future.
    """

    def __init__(self, client: Client, detectors: Watch, now_s: float | None = None) -> None:
        self._client = client
        self._detectors = detectors
        self._midnight = int(time.time() if now_s is None else now_s) // DAY_S * DAY_S - DAY_S
        self._samples: defaultdict[str, list[Sample]] = defaultdict(list)
        self._threads = ThreadPoolExecutor(len(JUNCTIONS), thread_name_prefix="forecast")
        self._answers = True

    def after_step(self, time_s: int) -> None:
        """Read the detectors at a second of the simulated day, and send them once a minute."""
        if not self._answers:
            return
        self._detectors.look()
        if time_s % MINUTE_S:
            return
        for junction_id, minute in self._detectors.minute().items():
            self._samples[junction_id].append(Sample(self._midnight + time_s, *minute))
        try:
            list(self._threads.map(self._ask, JUNCTIONS))
        except GreenwaveError:
            self._answers = False

    def _ask(self, junction_id: str) -> None:
        self._client.flow.forecast(junction_id, self._samples[junction_id][-MINUTE_S:])
