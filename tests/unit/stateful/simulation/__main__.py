"""Explore schedules until one of them breaks a law, or for a number of them."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing.pool import Pool
from typing import NamedTuple

from tests.unit.stateful.simulation.actions import MODES
from tests.unit.stateful.simulation.explore import Exploration, explore, fresh_seeds, report
from tests.unit.stateful.simulation.run import Result
from tests.unit.stateful.simulation.shrink import shrink
from tests.unit.stateful.simulation.times import a_tenth_as_long

CHUNK = 20
REPORT_EVERY_S = 20.0


class Work(NamedTuple):
    mode: str
    seeds: tuple[int, ...]


def _do(work: Work) -> list[Result]:
    return list(explore(work.mode, iter(work.seeds)))


def _work(args: argparse.Namespace) -> Iterator[Work]:
    modes = itertools.cycle(MODES if args.mode == "all" else [args.mode])
    seeds = fresh_seeds() if args.seed is None else itertools.count(args.seed)
    n = args.schedules if args.schedules is not None else (None if args.seed is None else 1)
    seeds = itertools.islice(seeds, n)
    while chunk := tuple(itertools.islice(seeds, CHUNK)):
        yield Work(next(modes), chunk)


def _results(pool: Pool, work: Iterator[Work], ahead: int) -> Iterator[Result]:
    """Yield results as they come, never asking for more work than a little ahead."""
    under_way = deque(pool.apply_async(_do, (each,)) for each in itertools.islice(work, ahead))
    while under_way:
        yield from under_way.popleft().get()
        under_way += [pool.apply_async(_do, (each,)) for each in itertools.islice(work, 1)]


def main() -> int:
    """Return 1 when a law was broken."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--mode", choices=[*MODES, "all"], default="all")
    parser.add_argument("--seed", type=int, help="the first seed, instead of fresh ones")
    parser.add_argument("--schedules", type=_positive, help="how many; one for a seed, else no end")
    parser.add_argument("--shrink", action="store_true", help="drop what a breach does not need")
    parser.add_argument("--jobs", type=_positive, default=1, help="processes")
    args = parser.parse_args()

    exploration, started, reported = Exploration(), time.monotonic(), 0.0
    with multiprocessing.Pool(args.jobs) as pool:
        for result in _results(pool, _work(args), 2 * args.jobs):
            exploration.add(result)
            if result.breach is not None:
                _say(report(_shrunk(result) if args.shrink else result))
                return 1
            seconds = time.monotonic() - started
            if seconds - reported > REPORT_EVERY_S:
                reported = seconds
                _say(f"{exploration}\n{exploration.schedules / seconds * 60:7.0f} a minute\n")
    _say(f"{exploration}\nNo schedule has broken a law.")
    return 0


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _shrunk(result: Result) -> Result:
    with a_tenth_as_long():
        return shrink(result)


if __name__ == "__main__":
    sys.exit(main())
