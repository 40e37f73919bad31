"""What the street sees when the policy is away: a controller whose answers do not all arrive."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.signals.clock_plan import ClockPlan
from models.simulation.controllers import Controller
from models.simulation.environment import DECISION_S
from models.simulation.observation import Observation


class AlwaysRed:
    """The gateway's documented fallback: action 0, for ever."""

    def reset(self) -> None:
        """Do nothing: nothing is kept between decisions."""

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        return dict.fromkeys(observations, 0)


class ByClock:
    """The gateway's fixed-time plan, read by the simulation's clock.

    Args:
        begin_s: second of the day of the first decision.
    """

    def __init__(self, plan: ClockPlan, begin_s: int) -> None:
        self._plan = plan
        self._begin_s = begin_s
        self.reset()

    def reset(self) -> None:
        self._now_s = self._begin_s

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        actions = {each: self._plan.at(each, self._now_s).phase for each in observations}
        self._now_s += DECISION_S
        return actions


class WithLosses:
    """A controller some of whose answers are lost, while its steps are made.

    Args:
        fallback: decides in place of what is lost.
        share: of a junction's decisions that are lost, 0 to 1.
    """

    def __init__(
        self, controller: Controller, fallback: Controller, share: float, seed: int
    ) -> None:
        self._controller = controller
        self._fallback = fallback
        self._share = share
        self._seed = seed
        self.reset()

    def reset(self) -> None:
        self._rng = np.random.default_rng(self._seed)
        self._controller.reset()
        self._fallback.reset()

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        actions = self._controller.act(observations)
        instead = self._fallback.act(observations)
        return {
            each: instead[each] if self._rng.random() < self._share else action
            for each, action in actions.items()
        }


class WithOutage:
    """A controller that is dead for some time, and then begins anew, with nothing remembered.

    Args:
        fallback: decides meanwhile.
        begin_s, end_s: of the outage, in seconds since the first decision.
    """

    def __init__(
        self, controller: Controller, fallback: Controller, begin_s: int, end_s: int
    ) -> None:
        self._controller = controller
        self._fallback = fallback
        self._begin_s, self._end_s = begin_s, end_s
        self.reset()

    def reset(self) -> None:
        self._now_s = 0
        self._controller.reset()
        self._fallback.reset()

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        now_s, self._now_s = self._now_s, self._now_s + DECISION_S
        instead = self._fallback.act(observations)
        if self._begin_s <= now_s < self._end_s:
            return instead
        if now_s == self._end_s:
            self._controller.reset()
        return self._controller.act(observations)
