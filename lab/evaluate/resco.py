"""Compare controllers on RESCO's scenarios: ``make resco RESCO=folder``.

Every run is kept as a JSON file in the results' folder and is not repeated.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from lab.evaluate.kept_runs import digest, make_runs, read_run
from lab.evaluate.resco_measures import SUMO, RescoQueue, Result
from lab.evaluate.resco_page import PAGE, write_report
from lab.evaluate.resco_published import MAPS
from lab.net.importing import import_network
from lab.sim.controllers import (
    CONTROLS,
    MAX_PRESSURE,
    Control,
    QueueController,
    policy_control,
    run,
)
from lab.sim.scenario import InvalidScenarioError, RouteFiles, Scenario, read_sumocfg
from models.networks.file import InvalidNetworkError
from models.policy.form import InvalidPolicyFileError

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "reports/resco"
# RESCO's rules: seconds from a decision to the next, and of yellow in it where the phase changes.
RULES, OTHER_RULES = (10, 3), {"arterial4x4": (5, 2)}
RESCO_CONTROLS: Mapping[str, Callable[[Scenario], Control]] = CONTROLS | {
    "cyclic max pressure": lambda scenario: partial(
        QueueController, MAX_PRESSURE._replace(cyclic=True)
    ),
}
TUNED = "pressure within 100 m"  # the rule whose lead is chosen for each map
LEADS = 0.5, 1.0, 1.5, 2.0, 3.0  # vehicles by which another phase must lead
LEAD_SEEDS = 50_001, 50_002
TRAINED = "trained"  # the controller that is a policy's file for each map
NAMES = *RESCO_CONTROLS, TUNED, TRAINED
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
    folder: Path, name: str, controller: str, seed: int, by: Path | float | None = None
) -> Mapping[str, Any]:
    """Simulate one run in this process; returns a result by its fields.

    Args:
        by: weights of a policy, or the lead of the rule.
    """
    scenario = scenario_of(folder, name)
    queue = RescoQueue(scenario.network)
    control: Control
    if by is None:
        control = RESCO_CONTROLS[controller](scenario)
    elif isinstance(by, Path):
        control = policy_control(scenario, by)
    else:
        rule = MAX_PRESSURE._replace(counts="all", range_m=100.0, hysteresis=by)
        control = partial(QueueController, rule)
    metrics = run(scenario, seed, control, queue)
    return Result.of(name, controller, seed, metrics, queue, _decided_by(by))._asdict()


def _decided_by(by: Path | float | None) -> str:
    if by is None:
        return ""
    return digest(by) if isinstance(by, Path) else f"lead {by:g}"


def choose_lead(delay_of: Callable[[float], float]) -> float:
    """Return the first lead that the next one does not improve.

    Args:
        delay_of: simulates the rule with a lead, on the seeds for the choice.
    """
    best, least = LEADS[0], math.inf
    for lead in LEADS:
        delay_s = delay_of(lead)
        if delay_s >= least:
            break
        best, least = lead, delay_s
    return best


def make_results(
    folder: Path, cells: list[tuple[str, str, int]], results: Path, workers: int
) -> list[Result]:
    """Make the runs that the results' folder lacks; returns all of them, in their order.

    A map's policy is ``policies/<map>.th`` in that folder; without one it has no trained runs.
    Those of other weights are made anew, and so are those of the rule with another lead.

    Args:
        cells: map, controller and seed of each run.
    """
    paths = {cell: results / result_file(*cell) for cell in cells}
    classic = {
        path: partial(_run, folder, *cell)
        for cell, path in paths.items()
        if cell[1] in RESCO_CONTROLS
    }
    runs = make_runs(classic, SAME, workers)

    def delay_of(name: str, lead: float) -> float:
        kept = {
            results / "leads" / f"{name}-{lead:g}-{seed}.json": partial(
                _run, folder, name, TUNED, seed, lead
            )
            for seed in LEAD_SEEDS
        }
        return fmean(made["delay_s"] for made in make_runs(kept, SAME, workers).values())

    for name, controller in dict.fromkeys(cell[:2] for cell in cells):
        by: Path | float
        if controller == TUNED:
            by = choose_lead(partial(delay_of, name))
        elif controller == TRAINED and (results / "policies" / f"{name}.th").exists():
            by = results / "policies" / f"{name}.th"
        else:
            continue
        decided = {
            path: partial(_run, folder, *cell, by)
            for cell, path in paths.items()
            if cell[:2] == (name, controller)
        }
        runs |= make_runs(decided, SAME | {"policy": _decided_by(by)}, workers)
    return [Result(**runs[path]) for path in paths.values() if path in runs]


def read_results(folder: Path) -> list[Result]:
    """Return all kept results of this SUMO, in the order of the controllers and seeds."""
    kept = [made for path in folder.glob("*.json") if (made := read_run(path, SAME)) is not None]
    results = [Result(**made) for made in kept]
    others = sorted({each.controller for each in results} - {*NAMES})
    order = [*NAMES[:-1], *others, TRAINED]
    return sorted(results, key=lambda each: (order.index(each.controller), each.map, each.seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--resco", type=Path, required=True, help="folder with a folder of each map"
    )
    parser.add_argument("--maps", nargs="+", choices=MAPS, default=list(MAPS))
    parser.add_argument("--controllers", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 1 on")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the runs")
    parser.add_argument("--report", type=Path, default=PAGE, help="page to write")
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
    if TRAINED in options.controllers and all(each.controller != TRAINED for each in results):
        tqdm.write(
            f"No policy of these maps is in {options.results / 'policies'}: docs/training.md."
        )
    tqdm.write(f"{len(results)} runs are in {options.results}.")
    write_report(read_results(options.results), options.report)
    tqdm.write(f"Table and plot of all that is there: {options.report}")


if __name__ == "__main__":
    main()
