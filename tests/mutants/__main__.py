"""Puts single defects into the engine of states and the policies, and runs the tests on each.

All written defects are tried, and a sample of the generic ones. A mutant is killed when a test
fails. One that survives is a guard that nothing tests, or that is not needed: write the test,
remove the guard, or add it to tests/mutants/accepted.py with the reason.

With the defaults this takes half an hour on two free cores, of which recording the tests of the
source without a defect takes two to three minutes.

    make mutants ARGS="--sample 150 --seed 7"
    make mutants ARGS="--sample 0 --only fenced_writer"
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console

from tests.mutants.accepted import ACCEPTED
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.operators import mutants_of
from tests.mutants.run import judge
from tests.mutants.written import WRITTEN

ON_RAY = {"deployments.stateful.ray.actor", "deployments.stateful.ray.client"}
"""Their tests need a cluster: tests/cluster/inference."""


class Room(NamedTuple):
    """Modules, and the folders of the tests that must find their defects."""

    modules: list[str]
    tests: list[str]


ROOMS = [
    Room(
        [
            module
            for file in sorted((ROOT / "deployments" / "stateful").rglob("*.py"))
            if file.name != "__init__.py"
            and (module := ".".join(file.relative_to(ROOT).with_suffix("").parts)) not in ON_RAY
        ],
        ["tests/unit/stateful"],
    ),
    Room(
        [
            f"deployments.inference.{name}"
            for name in ("policies", "policy_model", "routes", "service", "shadow", "telemetry")
        ],
        ["tests/unit/inference"],
    ),
]

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sample", type=int, default=150, help="generic mutants (%(default)s)")
    parser.add_argument("--seed", type=int, help="of the sample; by default a new one")
    parser.add_argument("--only", default="", help="mutants whose place or name has this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (%(default)s)")
    parser.add_argument("--list", action="store_true", help="name the mutants and stop")
    options = parser.parse_args()
    seed = random.randrange(10_000) if options.seed is None else options.seed
    chosen = choose(options.sample, seed, options.only)
    if not chosen:
        parser.error(f"no mutant has {options.only!r} in its place or name; --list names them")
    if options.list:
        for each in chosen:
            console.print(str(each), markup=False)
        return 0
    console.print(f"{len(chosen)} mutants, --seed {seed}; first, all tests run without a defect.")
    started = time.monotonic()
    survivors = _judge(chosen, options.jobs)
    minutes = (time.monotonic() - started) / 60
    killed = len(chosen) - len(survivors)
    console.print(f"{killed} of {len(chosen)} mutants are killed, in {minutes:.0f} minutes.")
    for each in survivors:
        console.print(f"survives: {each}", style="red", markup=False)
    return 1 if survivors else 0


def choose(n: int, seed: int, only: str) -> list[Mutant]:
    """Return the written mutants and n generic ones, of those that have a text."""
    generic = [
        each
        for room in ROOMS
        for module in room.modules
        for each in mutants_of(module)
        if only in str(each) and str(each) not in ACCEPTED
    ]
    sample = random.Random(seed).sample(generic, min(n, len(generic)))
    return [*(each for each in WRITTEN if only in str(each)), *sample]


def _judge(mutants: Sequence[Mutant], jobs: int) -> list[Mutant]:
    """Return those that survive."""
    survivors = []
    for room in ROOMS:
        inside = [each for each in mutants if each.module in room.modules]
        for verdict in judge(inside, room.modules, room.tests, jobs) if inside else ():
            fate = f"killed by {verdict.killer}" if verdict.killer else "SURVIVES"
            console.print(f"{verdict.seconds:5.1f} s  {verdict.mutant}: {fate}", markup=False)
            if not verdict.killer:
                survivors.append(verdict.mutant)
    return survivors


if __name__ == "__main__":
    sys.exit(main())
