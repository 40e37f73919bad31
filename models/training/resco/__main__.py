"""Compare classic controllers on RESCO's scenarios: ``make resco RESCO=folder``.

Every run is kept as a JSON file in the results' folder and is not repeated.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tqdm import tqdm

from models.networks.file import InvalidNetworkError
from models.policy.form import InvalidPolicyFileError
from models.simulation.city.episode import CONTROLLERS
from models.simulation.city.scenario import InvalidScenarioError
from models.training.resco.cells import TRAINED, Cell, read_results, run_cells, scenario_of
from models.training.resco.published import MAPS
from models.training.resco.report import write_report

ROOT = Path(__file__).parents[3]


def main() -> None:
    known = [*CONTROLLERS, TRAINED]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--resco", type=Path, required=True, help="folder with a folder of each map"
    )
    parser.add_argument("--maps", nargs="+", choices=MAPS, default=list(MAPS))
    parser.add_argument("--controllers", nargs="+", choices=known, default=known)
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 1 on")
    parser.add_argument(
        "--results", type=Path, default=ROOT / "reports/resco", help="folder of the runs"
    )
    parser.add_argument("--report", type=Path, default=ROOT / "docs/resco.md", help="page to write")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    cells = [
        Cell(name, controller, seed)
        for seed in range(1, options.seeds + 1)
        for name in options.maps
        for controller in options.controllers
    ]
    try:
        for name in options.maps:
            scenario_of(options.resco, name)
        results = run_cells(options.resco, cells, options.results, options.workers)
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
