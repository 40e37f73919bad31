"""Compare controllers on RESCO's scenarios: ``make resco RESCO=folder``.

Every run is kept as a JSON file in the results' folder and is not repeated.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from models.evaluation.kept_runs import digest, make_runs, read_run
from models.evaluation.resco_measures import SUMO, RescoQueue, Result
from models.evaluation.resco_page import write_report
from models.evaluation.resco_published import MAPS
from models.networks.file import InvalidNetworkError
from models.policy.form import InvalidPolicyFileError
from models.simulation.controllers import (
    CONTROLS,
    MAX_PRESSURE,
    Control,
    QueueController,
    policy_control,
    run,
)
from models.simulation.scenario import InvalidScenarioError, RouteFiles, Scenario, read_sumocfg
from models.sumo.importing import import_network

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "reports/resco"
# RESCO's rules: seconds from a decision to the next, and of yellow in it where the phase changes.
RULES, OTHER_RULES = (10, 3), {"arterial4x4": (5, 2)}
RESCO_CONTROLS: Mapping[str, Callable[[Scenario], Control]] = CONTROLS | {
    "cyclic max pressure": lambda scenario: partial(
        QueueController, MAX_PRESSURE._replace(cyclic=True)
    ),
    "pressure within 100 m": lambda scenario: partial(
        QueueController, MAX_PRESSURE._replace(counts="all", range_m=100.0, hysteresis=0.5)
    ),
}
TRAINED = "trained"  # the controller that is a policy's file for each map
SAME = {"sumo": SUMO}


def result_file(name: str, controller: str, seed: int) -> str:
    return f"{name}-{controller.replace(' ', '_')}-{seed}.json"


@lru_cache(maxsize=8)
def scenario_of(folder: Path, name: str) -> Scenario:
    """Return a map of RESCO under RESCO's rules.

    Raises:
        InvalidScenarioError, InvalidNetworkError: it is not there, or cannot be driven.
    """
    config = folder / name / f"{name}.sumocfg"
    if not config.is_file():
        raise InvalidScenarioError(f"{config} is not there.")
    files = read_sumocfg(config)
    network, _ = import_network(files.net, name)
    return Scenario(
        network,
        files.net,
        RouteFiles(files.routes),
        files.begin_s,
        files.end_s,
        *OTHER_RULES.get(name, RULES),
        counts="all",
        additional=files.additional,
    )


def _run(
    folder: Path, name: str, controller: str, seed: int, weights: Path | None = None
) -> Mapping[str, Any]:
    """Simulate one run in this process; returns a result by its fields."""
    scenario = scenario_of(folder, name)
    queue = RescoQueue(scenario.network)
    if weights is None:
        policy, control = "", RESCO_CONTROLS[controller](scenario)
    else:
        policy, control = digest(weights), policy_control(scenario, weights)
    metrics = run(scenario, seed, control, queue)
    return Result.of(name, controller, seed, metrics, queue, policy)._asdict()


def make_results(
    folder: Path, cells: list[tuple[str, str, int]], results: Path, workers: int
) -> list[Result]:
    """Make the runs that the results' folder lacks; returns all of them, in their order.

    A map's policy is ``policies/<map>.th`` in that folder; without one it has no trained runs.
    Those of other weights are made anew.

    Args:
        cells: map, controller and seed of each run.
    """
    paths = {cell: results / result_file(*cell) for cell in cells}
    classic = {
        path: partial(_run, folder, *cell) for cell, path in paths.items() if cell[1] != TRAINED
    }
    runs = make_runs(classic, SAME, workers)
    for name in dict.fromkeys(name for name, controller, _ in cells if controller == TRAINED):
        weights = results / "policies" / f"{name}.th"
        if weights.exists():
            trained = {
                path: partial(_run, folder, *cell, weights)
                for cell, path in paths.items()
                if cell[:2] == (name, TRAINED)
            }
            runs |= make_runs(trained, SAME | {"policy": digest(weights)}, workers)
    return [Result(**runs[path]) for path in paths.values() if path in runs]


def read_results(folder: Path) -> list[Result]:
    """Return all kept results of this SUMO, in the order of the controllers and seeds."""
    kept = [made for path in folder.glob("*.json") if (made := read_run(path, SAME)) is not None]
    results = [Result(**made) for made in kept]
    others = sorted({each.controller for each in results} - {*RESCO_CONTROLS, TRAINED})
    order = [*RESCO_CONTROLS, *others, TRAINED]
    return sorted(results, key=lambda each: (order.index(each.controller), each.map, each.seed))


def main() -> None:
    known = [*RESCO_CONTROLS, TRAINED]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--resco", type=Path, required=True, help="folder with a folder of each map"
    )
    parser.add_argument("--maps", nargs="+", choices=MAPS, default=list(MAPS))
    parser.add_argument("--controllers", nargs="+", choices=known, default=known)
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 1 on")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the runs")
    parser.add_argument("--report", type=Path, default=ROOT / "docs/resco.md", help="page to write")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    cells = [
        (name, controller, seed)
        for seed in range(1, options.seeds + 1)
        for name in options.maps
        for controller in options.controllers
    ]
    try:
        for name in options.maps:
            scenario_of(options.resco, name)
        results = make_results(options.resco, cells, options.results, options.workers)
    except (InvalidNetworkError, InvalidPolicyFileError, InvalidScenarioError) as error:
        sys.exit(str(error))
    if TRAINED in options.controllers and not any(each.policy for each in results):
        tqdm.write(
            f"No policy of these maps is in {options.results / 'policies'}: docs/training.md."
        )
    tqdm.write(f"{len(results)} runs are in {options.results}.")
    write_report(read_results(options.results), options.report)
    tqdm.write(f"Table and plot of all that is there: {options.report}")


if __name__ == "__main__":
    main()
