"""What is not as usual: detectors that fail, and traffic that goes other ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from models.simulation.controllers import Controller
from models.simulation.demand import HOUR_S
from models.simulation.environment import Scenario
from models.training.faults import Faults
from models.training.traffic_levels import MORNING_RUSH_S


class Strain(NamedTuple):
    """A strain for controllers.

    Attributes:
        scenario: of a seed.
        reads: what one detector of each junction reads all the time; None where none is broken.
        controllers: that it concerns. Fixed time sees nothing, and SUMO's actuated control has
            detectors of its own.
    """

    scenario: Callable[[int], Scenario]
    controllers: tuple[str, ...]
    reads: float | None = None

    def on(self, controller: Controller, seed: int) -> Controller:
        """Return the controller with what it can see."""
        return Faults(self.reads).on(controller, seed)


SEEING = ("max pressure", "imitation", "policy")
ALL = ("fixed time", "actuated", *SEEING)

STRAINS: Mapping[str, Strain] = {
    "rush hour, one lane of each junction reads empty": Strain(
        lambda seed: Scenario(MORNING_RUSH_S), SEEING, reads=0.0
    ),
    "rush hour, one lane of each junction reads half full": Strain(
        lambda seed: Scenario(MORNING_RUSH_S), SEEING, reads=0.5
    ),
    "medium, 12:00, other turns and entries": Strain(
        lambda seed: Scenario(12 * HOUR_S, strange=seed), ALL
    ),
    "rush hour, 7:30, other turns and entries": Strain(
        lambda seed: Scenario(MORNING_RUSH_S, strange=seed), ALL
    ),
}
