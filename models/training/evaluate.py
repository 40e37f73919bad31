"""Compare controllers on hours and seeds not trained on: ``python -m models.training.evaluate``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from models.simulation.controllers import Controller, MaxPressure, PolicyController
from models.simulation.demand import HOUR_S
from models.simulation.environment import Scenario
from models.simulation.episode import run_episode
from models.simulation.fixed_time import FixedTime
from models.simulation.metrics import Metrics
from models.simulation.road_network import RoadNetwork, read_network
from models.training.imitate import WEIGHTS_FILE
from models.training.rolling_horizon import RollingHorizon

MakeController = Callable[[RoadNetwork, Scenario], Controller]

SCENARIOS = {
    "morning rush 7:30": Scenario(begin_s=15 * HOUR_S // 2),
    "noon 12:00": Scenario(begin_s=12 * HOUR_S),
    "evening rush 17:00": Scenario(begin_s=17 * HOUR_S),
    "late 21:00": Scenario(begin_s=21 * HOUR_S),
    "morning rush, 15 % more": Scenario(begin_s=15 * HOUR_S // 2, demand_scale=1.15),
    "three hours from 7:00": Scenario(begin_s=7 * HOUR_S, duration_s=3 * HOUR_S),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", type=Path, default=WEIGHTS_FILE)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    policy = PolicyController.from_file(arguments.weights)
    controllers: dict[str, MakeController] = {
        "fixed time": FixedTime,
        "max pressure": lambda network, _: MaxPressure(network),
        "policy": lambda *_: policy,
        "teacher": lambda network, _: RollingHorizon(network),
    }
    Console().print(compare(controllers, arguments.seeds))


def compare(controllers: dict[str, MakeController], seeds: list[int]) -> Table:
    """Run every controller in every scenario with every seed; means over the seeds."""
    network = read_network()
    table = Table(title=f"Seconds per vehicle: waiting / travel / time loss, mean of seeds {seeds}")
    table.add_column("scenario")
    for name in controllers:
        table.add_column(name, justify="right")
    with tqdm(total=len(SCENARIOS) * len(controllers) * len(seeds), unit="run") as progress:
        for label, scenario in SCENARIOS.items():
            cells = []
            for make in controllers.values():
                results = []
                for seed in seeds:
                    results.append(run_episode(make(network, scenario), scenario, seed, network))
                    progress.update()
                cells.append(_mean_times(results))
            table.add_row(label, *cells)
    return table


def _mean_times(results: list[Metrics]) -> str:
    times = [[metrics.waiting_s, metrics.travel_s, metrics.time_loss_s] for metrics in results]
    return " / ".join(f"{mean:.1f}" for mean in np.mean(times, axis=0))


if __name__ == "__main__":
    main()
