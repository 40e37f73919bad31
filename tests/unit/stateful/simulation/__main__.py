"""Explore random schedules until one of them violates an invariant, or for a number of them."""

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

from tests.unit.stateful.simulation.explore import (
    Exploration,
    Result,
    explore,
    fresh_seeds,
    shrink,
)
from tests.unit.stateful.simulation.schedule import KINDS, MODES

CHUNK = 20
REPORT_EVERY_S = 20.0


class Work(NamedTuple):
    mode: str
    seeds: tuple[int, ...]
    named: tuple[str, ...]


def _do(work: Work) -> list[Result]:
    return list(explore(work.mode, iter(work.seeds), work.named))


def _work(args: argparse.Namespace) -> Iterator[Work]:
    modes = itertools.cycle(MODES if args.mode == "all" else [args.mode])
    seeds = fresh_seeds() if args.seed is None else itertools.count(args.seed)
    n = args.schedules if args.schedules is not None else (None if args.seed is None else 1)
    seeds = itertools.islice(seeds, n)
    while chunk := tuple(itertools.islice(seeds, CHUNK)):
        yield Work(next(modes), chunk, tuple(args.fault))


def _results(pool: Pool, work: Iterator[Work], ahead: int) -> Iterator[Result]:
    """Yield results as they arrive, with only a little work queued ahead."""
    queued = deque(pool.apply_async(_do, (each,)) for each in itertools.islice(work, ahead))
    while queued:
        yield from queued.popleft().get()
        queued += [pool.apply_async(_do, (each,)) for each in itertools.islice(work, 1)]


def main() -> int:
    """Return 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--mode", choices=[*MODES, "all"], default="all", help="the durability")
    parser.add_argument("--seed", type=int, help="the first seed, instead of fresh ones")
    parser.add_argument(
        "--schedules", type=_positive, help="how many; by default 1 for a seed, otherwise no limit"
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        choices=KINDS,
        metavar="KIND",
        help=f"that every schedule draws from, among others; may be repeated: {', '.join(KINDS)}",
    )
    parser.add_argument("--shrink", action="store_true", help="drop actions that are not needed")
    parser.add_argument("--jobs", type=_positive, default=1, help="number of processes")
    args = parser.parse_args()

    exploration, started, reported = Exploration(), time.monotonic(), 0.0
    with multiprocessing.Pool(args.jobs) as pool:
        for result in _results(pool, _work(args), 2 * args.jobs):
            exploration.add(result)
            if result.violation is not None:
                _print(shrink(result) if args.shrink else result)
                return 1
            seconds = time.monotonic() - started
            if seconds - reported > REPORT_EVERY_S:
                reported = seconds
                _print(f"{exploration}\n{exploration.schedules / seconds * 60:7.0f} a minute\n")
    _print(f"{exploration}\nNo schedule has violated an invariant.")
    return 0


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _print(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
