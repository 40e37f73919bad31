"""Simulate the calendar, one file per day, then join them: ``make data``.

Days that are there already are kept, so it can be interrupted at any time.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path

from tqdm import tqdm

from lab.net.net import load_net
from lab.sim.processes import make_pool
from lab.train.forecasts.dataset import DATA_FILE, Calendar, join_days
from lab.train.forecasts.days import draw_day
from lab.train.forecasts.simulate import Measurements, simulate_day
from models.networks.shipped import NET_FILE, SHIPPED

DAYS_FOLDER = Path(__file__).parents[3] / ".data" / "days"
N_DAYS = 84  # twelve weeks


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--days", type=int, default=N_DAYS, help="length of the calendar")
    parser.add_argument("--folder", type=Path, default=DAYS_FOLDER)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--output", type=Path, default=DATA_FILE, help="all days in one file")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    generate(options.folder, options.days, options.workers)
    days = [Measurements.load(day_file(options.folder, number)) for number in range(options.days)]
    Calendar(tuple(load_net(NET_FILE).edges), SHIPPED.ids, join_days(days)).save(options.output)


def generate(folder: Path, n_days: int, workers: int) -> None:
    """Simulate the days that have no file yet."""
    missing = [number for number in range(n_days) if not day_file(folder, number).exists()]
    with make_pool(workers) as pool:
        running = [pool.submit(_simulate_to_file, folder, number) for number in missing]
        done = tqdm(as_completed(running), total=n_days, initial=n_days - len(missing), unit="day")
        for future in done:
            future.result()


def day_file(folder: Path, number: int) -> Path:
    return folder / f"day-{number:03d}.npz"


def _simulate_to_file(folder: Path, number: int) -> None:
    simulate_day(draw_day(number)).save(day_file(folder, number))


if __name__ == "__main__":
    main()
