"""Compare controllers on RESCO's scenarios: ``make resco RESCO=folder``.

Every run is kept as a JSON file in the results' folder and is not repeated.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from tqdm import tqdm

from models.evaluation.comparison import CityRun
from models.evaluation.kept_runs import digest, make_runs, read_run
from models.evaluation.statistics import Estimate, estimate
from models.networks.file import InvalidNetworkError
from models.policy.form import InvalidPolicyFileError
from models.simulation.controllers import CONTROLS, policy_control, run
from models.simulation.metrics import Metrics
from models.simulation.scenario import InvalidScenarioError, RouteFiles, Scenario, read_sumocfg
from models.sumo.importing import import_network

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "reports/resco"
MAPS = ("cologne1", "cologne3", "cologne8", "ingolstadt1", "ingolstadt7", "ingolstadt21")
DECISION_S, YELLOW_S = 10, 3  # RESCO's rules
TRAINED = "trained"  # the controller that is a policy's file for each map
SAME = {"sumo": version("eclipse-sumo")}

PUBLISHED_CONTROLLERS = ("fixed time", "greedy", "max pressure", "IDQN", "IPPO")
PUBLISHED: dict[str, tuple[float, ...]] = {
    "cologne1": (56.6, 27.8, 65.9, 26.1, 43.2),
    "cologne3": (46.4, 90.7, 162.3, 24.0, 24.0),
    "cologne8": (63.8, 21.9, 47.7, 22.1, 21.6),
    "ingolstadt1": (39.4, 28.3, 23.6, 21.5, 20.9),
    "ingolstadt7": (91.3, 80.6, 46.8, 31.2, 31.7),
    "ingolstadt21": (133.1, 76.3, 136.7, 59.6, 93.1),
}
SOURCE = """Delays that others have published, in seconds per vehicle, with SUMO 1.9.

Source: J. Ault and G. Sharon, "Reinforcement Learning Benchmarks for Traffic Signal Control",
NeurIPS 2021, Datasets and Benchmarks; https://github.com/Pi-Star-Lab/RESCO, avg_timeLoss.py. Of the
learners, the best episode of the mean curve."""

MEASURES = {"delay_s": "Delay", "waiting_s": "Waiting", "trip_s": "Trip time"}
HEAD = """# Controllers on RESCO's scenarios

`make resco RESCO=folder` makes this page: classic controllers and trained ones, on six public
scenarios of Cologne and Ingolstadt, an hour of traffic each, in one SUMO and under the rules of the
benchmark: a decision every 10 s, 3 s of yellow in it where the phase changes, no teleporting. The
scenarios come from <https://github.com/Pi-Star-Lab/RESCO> (`resco_benchmark/environments`); their
licences (CC BY-NC-SA 3.0 for Cologne, GPL-3.0 for Ingolstadt) keep them out of this repository.

Delay is the mean over all vehicles of time loss and wait to depart; one that never departed counts
its wait until the end of the hour. Intervals are Student's, 95 %, over the seeds; where one is as
wide as its mean, some seeds ended in a jam that did not dissolve. The column *seeds* has the most
that a controller of the map ran. A map that is missing or has fewer than ten was not completed.

- *fixed time*: the nets' own programs. *Webster*: their phases, with cycle and splits for the
  movements' flows of one run, with a separate seed, of the nets' own programs in this hour.
- *actuated*, *delay-based*: SUMO's, with the nets' phases and SUMO's defaults.
- *greedy*: the phase that serves the most vehicles. *max pressure*: the phase that serves the most
  standing vehicles, less those that stand where they would go. A lane's vehicles are shared evenly
  by its ways across the junction; a way that has to give way counts half.
- *trained*: the policy of [docs/training.md](training.md), one file for each map, which is not
  shipped; it has never seen these seeds. It observes all vehicles on each lane, as greedy does.
- *SB3 PPO*, where it was run: [maskable PPO](../examples/stable_baselines3/README.md) of
  Stable-Baselines3 with RESCO's reward and the same observations, from random weights on.

Greedy and max pressure jam permanently in some seeds of cologne1 and cologne3. They may change from
a phase whose left turns give way to the crossing road's, with 3 s of yellow and no all-red; the
left turns of both roads then stand inside the junction in each other's way, and by the benchmark's
rules no vehicle is teleported out. This is left as it is. On ingolstadt21 every classic controller
but Webster's, which changes at set times, jams in some seeds
([why](training.md#where-a-city-jams)).
"""


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

    @classmethod
    def of(
        cls, name: str, controller: str, seed: int, metrics: Metrics, policy: str = ""
    ) -> Result:
        made = CityRun.of(controller, seed, metrics)
        return cls(
            name,
            controller,
            seed,
            SAME["sumo"],
            made.delay_s,
            made.waiting_s,
            made.trip_s,
            made.demanded,
            made.arrived,
            policy,
        )


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
        DECISION_S,
        YELLOW_S,
        counts="all",
        additional=files.additional,
    )


def _run(
    folder: Path, name: str, controller: str, seed: int, weights: Path | None = None
) -> Mapping[str, Any]:
    """Simulate one run in this process; returns a result by its fields."""
    scenario = scenario_of(folder, name)
    if weights is not None:
        metrics = run(scenario, seed, policy_control(scenario, weights))
        return Result.of(name, controller, seed, metrics, digest(weights))._asdict()
    metrics = run(scenario, seed, CONTROLS[controller](scenario))
    return Result.of(name, controller, seed, metrics)._asdict()


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
    others = sorted({each.controller for each in results} - {*CONTROLS, TRAINED})
    order = [*CONTROLS, *others, TRAINED]
    return sorted(results, key=lambda each: (order.index(each.controller), each.map, each.seed))


def write_report(results: Sequence[Result], page: Path) -> None:
    """Write a page of Markdown, and beside it the plot and a CSV of every run."""
    page.write_text(HEAD + "\n".join(_lines(results, page.with_suffix(".png").name)) + "\n")
    _plot(results, page.with_suffix(".png"))
    with page.with_suffix(".csv").open("w", newline="") as file:
        runs = csv.writer(file, lineterminator="\n")
        runs.writerows([Result._fields, *results])


def _lines(results: Sequence[Result], picture: str) -> Iterator[str]:
    controllers, maps = _names(results)
    yield from ("", f"![Delay by map and controller]({picture})", "", "[Every run](resco.csv)")
    for measure, title in MEASURES.items():
        yield from ("", f"## {title}, seconds per vehicle", "")
        yield _row(["map", "seeds", *controllers])
        yield _row(["---", *["---:"] * (len(controllers) + 1)])
        for name in maps:
            cells = {each: cell(results, name, each, measure) for each in controllers}
            yield _row([name, _seeds(results, name), *map(_shown, cells.values())])
    yield from ("", "## As published, with SUMO 1.9", "", SOURCE, "")
    yield "Other versions of SUMO give other figures: these are context, and no comparison."
    yield from ("", _row(["map", *PUBLISHED_CONTROLLERS]))
    yield _row(["---", *["---:"] * len(PUBLISHED_CONTROLLERS)])
    for name in maps:
        yield _row([name, *map(str, PUBLISHED[name])])
    yield from ("", f"Made with SUMO {', '.join(sorted({each.sumo for each in results}))}.")


def cell(results: Iterable[Result], name: str, controller: str, measure: str) -> Estimate | None:
    """Return mean and interval of a controller on a map, None where it has no run."""
    values = [
        getattr(each, measure)
        for each in results
        if (each.map, each.controller) == (name, controller)
    ]
    return estimate(values) if values else None


def _names(results: Sequence[Result]) -> tuple[list[str], list[str]]:
    controllers = list(dict.fromkeys(each.controller for each in results))
    return controllers, [name for name in MAPS if any(r.map == name for r in results)]


def _seeds(results: Iterable[Result], name: str) -> str:
    return str(len({each.seed for each in results if each.map == name}))


def _shown(value: Estimate | None) -> str:
    return "" if value is None else str(value)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plot(results: Sequence[Result], path: Path) -> None:
    controllers, maps = _names(results)
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    for axes, name in zip(figure.subplots(2, 3).flat, maps, strict=False):
        cells = [cell(results, name, each, "delay_s") for each in controllers]
        known = [(place, each) for place, each in enumerate(cells) if each is not None]
        axes.barh(
            [place for place, _ in known],
            [each.mean for _, each in known],
            xerr=[each.half_width for _, each in known],
            color="#9ecae1",
        )
        axes.set_yticks(range(len(controllers)), controllers)
        axes.invert_yaxis()
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("delay, s per vehicle")
    figure.savefig(path, dpi=90)


def main() -> None:
    known = [*CONTROLS, TRAINED]
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
