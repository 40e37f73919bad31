"""What users of load tests say they see."""

from __future__ import annotations

import random

from models.networks.shipped import JUNCTIONS


def observation(junction: str) -> list[float]:
    """Make up a plausible observation: first phase green, free to change, some queues."""
    phases, lanes = JUNCTIONS[junction].n_phases, JUNCTIONS[junction].n_lanes
    queues = [round(random.betavariate(1, 4), 2) for _ in range(lanes)]
    return [1.0] + [0.0] * (phases - 1) + [1.0] + queues
