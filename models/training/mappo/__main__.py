"""Train the policy with MAPPO: ``make train-policy``, or ``python -m models.training.mappo``."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

from tqdm import tqdm

from models.policy.form import InvalidPolicyFileError
from models.training.checkpoint import InvalidCheckpointError
from models.training.mappo.config import Config
from models.training.mappo.run import train
from models.training.mappo.shipped_problem import ShippedProblem

RUNS = Path(__file__).parents[3] / "reports" / "policy"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m models.training.mappo",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, default=RUNS / "mappo", help="of the run")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    hints = get_type_hints(Config, include_extras=True)
    for field in fields(Config):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            help=hints[field.name].__metadata__[0],
        )
    arguments = vars(parser.parse_args())
    folder, workers = arguments.pop("folder"), arguments.pop("workers")
    try:
        config = Config(**arguments)
    except ValueError as error:
        parser.error(str(error))
    try:
        score = train(config, folder, workers, ShippedProblem())
    except (InvalidPolicyFileError, InvalidCheckpointError) as error:
        sys.exit(str(error))
    tqdm.write(f"{folder / 'best.th'}: {score:.2f} s of time loss on the validation hours")


if __name__ == "__main__":
    main()
