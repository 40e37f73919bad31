"""Record an hour of observations and the policy's actions: ``python -m models.simulation.record``.

The file lets tests and load generators replay real observations without SUMO. Record it again when
the weights or the observation change.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from tqdm import tqdm

from models.networks.shipped import JUNCTIONS
from models.policy.form import SHIPPED_POLICY
from models.simulation.controllers import PolicyController
from models.simulation.environment import Observations, Scenario
from models.simulation.episode import run_episode


def record(weights: Path, target: Path, scenario: Scenario, seed: int) -> None:
    """Write a compressed npz: by junction id (T, obs_size) float32; ``actions`` (T, 5) int8."""
    observed: list[Observations] = []
    acted: list[list[int]] = []
    with tqdm(total=scenario.n_decisions, unit="decision") as progress:

        def keep(observations: Observations, actions: dict[str, int]) -> None:
            observed.append(observations)
            acted.append([actions[junction_id] for junction_id in JUNCTIONS])
            progress.update()

        run_episode(PolicyController.from_file(weights), scenario, seed, on_decision=keep)
    columns = {
        junction_id: np.stack([observations[junction_id] for observations in observed])
        for junction_id in JUNCTIONS
    }
    np.savez_compressed(target, allow_pickle=False, actions=np.array(acted, np.int8), **columns)


def main() -> None:
    root = Path(__file__).parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", type=Path, default=SHIPPED_POLICY)
    parser.add_argument("--output", type=Path, default=root / "tests/data/observations.npz")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    record(arguments.weights, arguments.output, Scenario(), arguments.seed)


if __name__ == "__main__":
    main()
