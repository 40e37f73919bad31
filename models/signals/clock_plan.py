"""A fixed-time plan by the clock: which phase each junction shows at any second of any day.

A pure function of the file and of the time. All who have read the same file and whose clocks agree
come to the same phases without a word to each other, and nothing has to be kept or restored.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, model_validator

from models.json_keys import check_keys
from models.networks.network import Network
from models.networks.shipped import FOLDER
from models.signals.states import MIN_GREEN_S, YELLOW_S

SHIPPED_PLAN = FOLDER / "greenwave.plan.json"
SAFE_PLAN = FOLDER / "greenwave.safe-plan.json"  # for the safety layer's changes
DAY_S = 24 * 3600
MIN_PHASE_S = YELLOW_S + MIN_GREEN_S
MAX_PHASE_S = 600
_NETWORK = "network"

PhaseSeconds = Annotated[int, Field(ge=MIN_PHASE_S, le=MAX_PHASE_S)]


class InvalidPlanError(ValueError):
    """The file is not a plan for these junctions; the message says why."""


class Planned(NamedTuple):
    """What a plan wants of a junction.

    Attributes:
        phase: to show.
        plan: name and period, such as ``weekday 07:00``.
    """

    phase: int
    plan: str


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Timing(_Form):
    """One junction's cycle.

    Attributes:
        offset_s: from the full cycle of the day, counted from midnight, to the start of phase 0.
        phases_s: seconds of each phase, with the yellow that leads to it.
    """

    offset_s: int = Field(ge=0, lt=DAY_S)
    phases_s: tuple[PhaseSeconds, ...] = Field(strict=False)

    def phase_at(self, second: float) -> int:
        return phase_at(second - self.offset_s, self.phases_s)


class Period(_Form):
    """What holds from a time of day, ``HH:MM``, until the next period begins."""

    begin: str = Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")
    junctions: dict[str, Timing]

    @property
    def begin_s(self) -> int:
        hours, minutes = self.begin.split(":")
        return int(hours) * 3600 + int(minutes) * 60

    @model_validator(mode="after")
    def _fit_the_junctions(self, info: ValidationInfo) -> Self:
        network: Network | None = (info.context or {}).get(_NETWORK)
        if network is None:
            return self
        if self.junctions.keys() != network.junctions.keys():
            different = sorted(self.junctions.keys() ^ network.junctions.keys())
            raise ValueError(f"exactly the known junctions must have a timing; wrong: {different}")
        for junction in network.junctions.values():
            if len(self.junctions[junction.id].phases_s) != junction.n_phases:
                raise ValueError(f"junction {junction.id} has {junction.n_phases} phases")
        return self


class ClockPlan(_Form):
    """Timings of every junction for every second of a day.

    Attributes:
        name: as in answers.
        periods: ordered; the first begins at midnight.
    """

    name: str = Field(min_length=1, max_length=50)
    periods: tuple[Period, ...] = Field(min_length=1, strict=False)

    @model_validator(mode="after")
    def _cover_the_day(self) -> Self:
        begins = [period.begin_s for period in self.periods]
        if begins[0] != 0 or any(a >= b for a, b in pairwise(begins)):
            raise ValueError("the periods must begin at 00:00 and follow each other")
        return self

    def shortest_phase_s(self, junction_id: str) -> int:
        """Return the shortest phase of a junction, with the change that leads to it."""
        return min(min(period.junctions[junction_id].phases_s) for period in self.periods)

    def at(self, junction_id: str, second_of_day: float) -> Planned:
        """Return what the plan wants at a time of day; any number of seconds is one.

        Raises:
            KeyError: an unknown junction.
        """
        second = second_of_day % DAY_S
        period = self.periods[bisect_right(self.periods, second, key=lambda each: each.begin_s) - 1]
        phase = period.junctions[junction_id].phase_at(second)
        return Planned(phase, f"{self.name} {period.begin}")


def phase_at(second: float, durations_s: tuple[int, ...]) -> int:
    """Return the phase that a repeating plan shows a number of seconds after its start."""
    return bisect_right(list(accumulate(durations_s)), second % sum(durations_s))


def read_plan(path: str | os.PathLike[str], network: Network) -> ClockPlan:
    """Read a plan of a network.

    Raises:
        InvalidPlanError: there is no such file, or it is not a plan for these junctions.
    """
    try:
        content = Path(path).read_bytes()
        plan = ClockPlan.model_validate_json(content, context={_NETWORK: network})
        check_keys(content)
        return plan
    except OSError as error:
        raise InvalidPlanError(f"the plan {path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise InvalidPlanError(f"{path} is no plan: {where}: {first['msg']}") from error
    except ValueError as error:
        raise InvalidPlanError(f"{path} is no plan: {error}") from error
