"""Runs of the scoreboard: one controller on one map with one seed, kept as a JSON file each."""

from __future__ import annotations

import json
from concurrent.futures import as_completed
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from models.cities.importing import import_network
from models.simulation.city.episode import CONTROLLERS
from models.simulation.city.scenario import CityScenario, InvalidScenarioError, read_sumocfg
from models.training.processes import make_pool
from models.whole_file import whole_file

DECISION_S, YELLOW_S = 10, 3  # RESCO's rules


class Cell(NamedTuple):
    """A run to make."""

    map: str
    controller: str
    seed: int

    @property
    def file(self) -> str:
        return f"{self.map}-{self.controller.replace(' ', '_')}-{self.seed}.json"


class Result(NamedTuple):
    """How a run went; times are means in seconds per vehicle of the hour."""

    map: str
    controller: str
    seed: int
    sumo: str
    delay_s: float
    waiting_s: float
    trip_s: float
    demanded: int
    arrived: int


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
    )


def run_cell(folder: Path, cell: Cell) -> Result:
    """Simulate one run in this process."""
    metrics = CONTROLLERS[cell.controller](scenario_of(folder, cell.map), cell.seed)
    return Result(
        *cell,
        sumo=version("eclipse-sumo"),
        delay_s=round(metrics.time_loss_s, 3),
        waiting_s=round(metrics.waiting_s, 3),
        trip_s=round(metrics.travel_s, 3),
        demanded=metrics.demanded,
        arrived=metrics.arrived,
    )


def run_cells(folder: Path, cells: list[Cell], results: Path, workers: int) -> list[Result]:
    """Make the runs that the results' folder lacks; returns all of them, in their order."""
    results.mkdir(parents=True, exist_ok=True)
    done = {cell: read_result(results / cell.file) for cell in cells}
    missing = [cell for cell in cells if done[cell] is None]
    with make_pool(workers) as pool:
        running = {pool.submit(run_cell, folder, cell): cell for cell in missing}
        try:
            for future in tqdm(as_completed(running), total=len(running), unit="run"):
                cell = running[future]
                done[cell] = result = future.result()
                with whole_file(results / cell.file) as file:
                    file.write(json.dumps(result._asdict()).encode())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [result for result in done.values() if result is not None]


def read_result(path: Path) -> Result | None:
    """Return a kept result of this SUMO, None where there is none."""
    if not path.exists():
        return None
    result = Result(**json.loads(path.read_text()))
    return result if result.sumo == version("eclipse-sumo") else None


def read_results(folder: Path) -> list[Result]:
    """Return all kept results of this SUMO, in the order of the controllers and seeds."""
    kept = [result for path in folder.glob("*.json") if (result := read_result(path)) is not None]
    order = list(CONTROLLERS)
    return sorted(kept, key=lambda each: (order.index(each.controller), each.map, each.seed))
