"""What fails while signals are controlled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from models.simulation.broken_detectors import BrokenDetectors, WithBrokenDetectors
from models.simulation.controllers import Controller
from models.simulation.outages import AlwaysRed, WithLosses

BLIND_SHARE = 0.4  # of the broken detectors; the others read a constant above zero
LOST_SHARES = (0.01, 0.1)


class Faults(NamedTuple):
    """What fails in an episode.

    Attributes:
        reads: what one detector of each junction reads all the time; None where none is broken.
        lost: share of a junction's answers that are lost, 0 to 1; it shows the gateway's RED.
    """

    reads: float | None = None
    lost: float = 0.0

    def on(self, controller: Controller, seed: int) -> Controller:
        """Return the controller with what it can see, and what arrives of its answers."""
        if self.reads is not None:
            controller = WithBrokenDetectors(controller, BrokenDetectors(self.reads, seed))
        if self.lost:
            controller = WithLosses(controller, AlwaysRed(), self.lost, seed)
        return controller


NONE = Faults()


def draw_faults(rng: np.random.Generator, share: float) -> Faults:
    """Draw the faults of an episode.

    Args:
        share: of the episodes with broken detectors, and as many that lose answers.
    """
    breaks, loses = rng.random(2) < share
    reads = 0.0 if rng.random() < BLIND_SHARE else float(rng.uniform(0.1, 1.0))
    lost = float(rng.choice(LOST_SHARES))
    return Faults(reads if breaks else None, lost if loses else 0.0)
