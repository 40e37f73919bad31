"""Record an hour of observations and actions: ``python -m tools.recorded_observations``.

The file lets tests and load generators replay real observations without SUMO. Record it again when
the weights or the observation change.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lab.sim.controllers import policy_control, run
from lab.sim.environment import Observations
from lab.sim.shipped import MORNING_RUSH_S, shipped_demand, shipped_scenario
from models.networks.shipped import SHIPPED
from models.policy.form import SHIPPED_POLICY

TARGET = Path(__file__).parents[1] / "tests/data/observations.npz"


def main() -> None:
    """Write a compressed npz: by junction id (T, obs_size) float32; ``actions`` (T, 5) int8."""
    observed: list[Observations] = []
    acted: list[list[int]] = []

    def keep(observations: Observations, actions: dict[str, int]) -> None:
        observed.append(observations)
        acted.append([actions[junction] for junction in SHIPPED.ids])

    scenario = shipped_scenario(shipped_demand(MORNING_RUSH_S))
    run(scenario, 1, policy_control(scenario, SHIPPED_POLICY), keep)
    columns = {
        junction: np.stack([observations[junction] for observations in observed])
        for junction in SHIPPED.ids
    }
    np.savez_compressed(TARGET, allow_pickle=False, actions=np.array(acted, np.int8), **columns)


if __name__ == "__main__":
    main()
