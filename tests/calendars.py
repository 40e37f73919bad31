"""A small calendar of days that can be foretold: waves with noise, no simulator needed."""

import numpy as np

from lab.train.forecasts.dataset import DAY_SLOTS, MINUTES, Calendar
from models.networks.shipped import JUNCTIONS

EDGES = ("north", "east", "south", "west", "ring", "lane", "path")


def wave_calendar(n_days: int) -> Calendar:
    random = np.random.default_rng(1)
    slots, minutes = np.arange(n_days * DAY_SLOTS), np.arange(n_days * MINUTES)
    level = 3.0 * np.arange(1, len(EDGES) + 1)  # the later in the tuple, the more congested
    daily = 1.1 - np.cos(2 * np.pi * slots / DAY_SLOTS)
    rate = 10 * (1.1 - np.cos(2 * np.pi * minutes / MINUTES))
    counts = random.poisson(rate[:, None], (len(minutes), len(JUNCTIONS)))
    return Calendar(
        edges=EDGES,
        junctions=tuple(JUNCTIONS),
        density=(daily[:, None] * level).astype(np.float32),
        vehicle_count=counts.astype(np.int16),
        avg_speed=(50 - 0.5 * counts).astype(np.float32),
        occupancy=(0.005 * counts).astype(np.float32),
    )
