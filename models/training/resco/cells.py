"""Runs of the scoreboard: one controller on one map with one seed, kept as a JSON file each."""

from __future__ import annotations

from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from models.simulation.city.episode import CONTROLLERS
from models.simulation.city.policy import by_policy
from models.simulation.city.scenario import CityScenario, InvalidScenarioError, read_sumocfg
from models.simulation.metrics import Metrics
from models.sumo.importing import import_network
from models.training.kept_runs import digest, make_runs, read_run

DECISION_S, YELLOW_S = 10, 3  # RESCO's rules
TRAINED = "trained"  # the controller that is a policy's file for each map


class Cell(NamedTuple):
    """A run to make."""

    map: str
    controller: str
    seed: int

    @property
    def file(self) -> str:
        return f"{self.map}-{self.controller.replace(' ', '_')}-{self.seed}.json"


class Result(NamedTuple):
    """How a run went; times are means in seconds per vehicle of the hour.

    Attributes:
        policy: the digest of its weights, where a policy's file decided.
    """

    map: str
    controller: str
    seed: int
    sumo: str
    delay_s: float
    waiting_s: float
    trip_s: float
    demanded: int
    arrived: int
    policy: str = ""


@lru_cache(maxsize=8)
def scenario_of(folder: Path, name: str) -> CityScenario:
    """Return a map of RESCO under RESCO's rules.

    Raises:
        InvalidScenarioError, InvalidNetworkError: it is not there, or cannot be driven.
    """
    config = folder / name / f"{name}.sumocfg"
    if not config.is_file():
        raise InvalidScenarioError(f"{config} is not there.")
    files = read_sumocfg(config)
    network, _ = import_network(files.net, name)
    return CityScenario(
        network,
        files.net,
        files.routes,
        files.begin_s,
        files.end_s,
        decision_s=DECISION_S,
        yellow_s=YELLOW_S,
        additional=files.additional,
        counts="all",
    )


def run_cell(folder: Path, cell: Cell, weights: Path | None = None) -> dict[str, Any]:
    """Simulate one run in this process; returns a result by its fields."""
    scenario = scenario_of(folder, cell.map)
    if weights is not None:
        metrics = by_policy(scenario, cell.seed, weights)
        return result_of(cell, metrics, digest(weights))._asdict()
    return result_of(cell, CONTROLLERS[cell.controller](scenario, cell.seed))._asdict()


def result_of(cell: Cell, metrics: Metrics, policy: str = "") -> Result:
    return Result(
        *cell,
        sumo=version("eclipse-sumo"),
        delay_s=round(metrics.time_loss_s, 3),
        waiting_s=round(metrics.waiting_s, 3),
        trip_s=round(metrics.travel_s, 3),
        demanded=metrics.demanded,
        arrived=metrics.arrived,
        policy=policy,
    )


def run_cells(folder: Path, cells: list[Cell], results: Path, workers: int) -> list[Result]:
    """Make the runs that the results' folder lacks; returns all of them, in their order.

    A map's policy lies in ``policies/<map>.th`` there; without one it has no trained runs. Those of
    other weights are made anew.
    """
    jobs = {
        results / cell.file: partial(run_cell, folder, cell)
        for cell in cells
        if cell.controller != TRAINED
    }
    runs = make_runs(jobs, _of_this_sumo(), workers)
    for name in dict.fromkeys(cell.map for cell in cells if cell.controller == TRAINED):
        weights = results / "policies" / f"{name}.th"
        if weights.exists():
            own = [cell for cell in cells if (cell.map, cell.controller) == (name, TRAINED)]
            jobs = {results / cell.file: partial(run_cell, folder, cell, weights) for cell in own}
            runs |= make_runs(jobs, _of_this_sumo() | {"policy": digest(weights)}, workers)
    return [Result(**runs[results / each.file]) for each in cells if results / each.file in runs]


def read_result(path: Path) -> Result | None:
    """Return a kept result of this SUMO, None where there is none."""
    run = read_run(path, _of_this_sumo())
    return None if run is None else Result(**run)


def _of_this_sumo() -> dict[str, str]:
    return {"sumo": version("eclipse-sumo")}


def read_results(folder: Path) -> list[Result]:
    """Return all kept results of this SUMO, in the order of the controllers and seeds."""
    kept = [result for path in folder.glob("*.json") if (result := read_result(path)) is not None]
    others = sorted({each.controller for each in kept} - {*CONTROLLERS, TRAINED})
    order = [*CONTROLLERS, *others, TRAINED]
    return sorted(kept, key=lambda each: (order.index(each.controller), each.map, each.seed))
