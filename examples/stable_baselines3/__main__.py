"""A peer on RESCO's maps: Stable-Baselines3's maskable PPO, for the scoreboard.

``train`` resumes from the model in its folder; ``evaluate`` puts its runs beside the scoreboard's.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path

from tqdm import tqdm

from lab.evaluate.resco import RESULTS, result_file, scenario_of
from lab.evaluate.resco_measures import Result
from lab.evaluate.resco_published import MAPS
from lab.sim.metrics import Metrics
from lab.sim.scenario import InvalidScenarioError, Scenario
from models.atomic_write import atomic_write
from models.networks.file import InvalidNetworkError

CONTROLLER = "SB3 PPO"
LOG = "log.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    training = actions.add_parser("train", help="train, or continue a training")
    training.add_argument("--hours", type=int, default=300, help="to simulate (default 300)")
    training.set_defaults(run=_train)
    evaluating = actions.add_parser("evaluate", help="drive the scoreboard's seeds")
    evaluating.add_argument("--seeds", type=int, default=10, help="how many, from 1 on")
    evaluating.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of the scoreboard"
    )
    evaluating.set_defaults(run=_evaluate)
    for action in (training, evaluating):
        action.add_argument("--resco", type=Path, required=True, help="folder with the maps")
        action.add_argument("--map", choices=MAPS, required=True)
        action.add_argument("--output", type=Path, required=True, help="folder of the model")
    options = parser.parse_args()
    try:
        options.run(options, scenario_of(options.resco, options.map))
    except ModuleNotFoundError as error:
        sys.exit(f"{error.name} is missing; install what README.md names.")
    except (InvalidNetworkError, InvalidScenarioError) as error:
        sys.exit(str(error))


def _train(options: argparse.Namespace, scenario: Scenario) -> None:
    from examples.stable_baselines3.learner import train

    options.output.mkdir(parents=True, exist_ok=True)
    with (
        tqdm(total=options.hours, unit="hour") as bar,
        (options.output / LOG).open("a", newline="") as file,
    ):
        rows = csv.writer(file, lineterminator="\n")

        def log(hour: int, metrics: Metrics) -> None:
            rows.writerow([hour, round(metrics.time_loss_s, 2), metrics.arrived])
            file.flush()
            bar.n = hour
            bar.set_postfix_str(f"delay {metrics.time_loss_s:.1f} s")

        path = train(scenario, options.hours, options.output, log)
    tqdm.write(f"The model is {path}.")


def _evaluate(options: argparse.Namespace, scenario: Scenario) -> None:
    from examples.stable_baselines3.learner import MODEL, drive, hours_of, read_model

    path = options.output / MODEL
    if not path.exists():
        sys.exit(f"{path} is not there; train first.")
    model = read_model(path)
    options.results.mkdir(parents=True, exist_ok=True)
    delays = []
    for seed in tqdm(range(1, options.seeds + 1), unit="run"):
        result = Result.of(options.map, CONTROLLER, seed, drive(model, scenario, seed))
        delays.append(result.delay_s)
        with atomic_write(options.results / result_file(options.map, CONTROLLER, seed)) as file:
            file.write(json.dumps(result._asdict()).encode())
    tqdm.write(
        f"{options.map}: {sum(delays) / len(delays):.2f} s of delay, mean of {len(delays)} seeds,"
        f" after {hours_of(model, scenario):.0f} simulated hours; kept in {options.results}."
    )


if __name__ == "__main__":
    main()
