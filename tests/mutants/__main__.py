"""Puts single defects into a copy of the project, one at a time, and runs the tests on each.

A mutant is killed when a test fails. One that survives is a guard that nothing tests, or that is
not needed: write the test, or remove the guard and say why.

    make mutants ARGS="--only writer --jobs 2"
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console

from tests.mutants.mutant import Mutant
from tests.mutants.of_the_authority import MUTANTS as OF_THE_AUTHORITY
from tests.mutants.of_the_network import MUTANTS as OF_THE_NETWORK
from tests.mutants.of_the_policies import MUTANTS as OF_THE_POLICIES
from tests.mutants.of_the_replica import MUTANTS as OF_THE_REPLICA
from tests.version import VERSION_VARIABLE, version

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = [*OF_THE_AUTHORITY, *OF_THE_NETWORK, *OF_THE_POLICIES, *OF_THE_REPLICA]
TESTS = ("tests/unit/stateful", "tests/unit/inference")
TIMEOUT_S = 600
_FAILED = 1  # pytest's status when a test has failed

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="mutants whose file or name has this text")
    parser.add_argument("--jobs", type=int, default=2, help="tests at once")
    parser.add_argument("--list", action="store_true", help="name the mutants and stop")
    options = parser.parse_args()
    chosen = [each for each in MUTANTS if options.only in f"{each.file} {each.name}"]
    if not chosen:
        parser.error(f"no mutant has {options.only!r} in its file or name; --list names them")
    if options.list:
        for each in chosen:
            console.print(f"{each.file}: {each.name}", markup=False)
        return 0
    with tempfile.TemporaryDirectory(prefix="gw-mutants-") as folder:
        survivors = _run(chosen, options.jobs, Path(folder))
    console.print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants are killed.")
    for each in survivors:
        console.print(f"survives: {each.file}: {each.name}", style="red", markup=False)
    return 1 if survivors else 0


def _run(mutants: list[Mutant], jobs: int, folder: Path) -> list[Mutant]:
    """Return those that survive."""
    copies: SimpleQueue[Path] = SimpleQueue()
    for number in range(jobs):
        copies.put(_copy_project(folder / str(number)))
    first = copies.get()
    if _tests_fail(first, *TESTS):
        raise SystemExit("The tests fail without any mutant; mend them first.")
    copies.put(first)

    def survives(mutant: Mutant) -> bool:
        copy, started = copies.get(), time.monotonic()
        source = copy / "deployments" / mutant.file
        before = source.read_bytes()
        try:
            mutant.put_into(copy)
            killed = _is_killed(copy, mutant)
        finally:
            source.write_bytes(before)
            copies.put(copy)
        verdict = "killed  " if killed else "SURVIVES"
        took = time.monotonic() - started
        console.print(f"{verdict} {took:5.0f} s  {mutant.file}: {mutant.name}", markup=False)
        return not killed

    with ThreadPoolExecutor(jobs) as pool:
        return [
            each for each, alive in zip(mutants, pool.map(survives, mutants), strict=True) if alive
        ]


def _copy_project(to: Path) -> Path:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to / name)
    return to


def _is_killed(copy: Path, mutant: Mutant) -> bool:
    """Run the tests that mirror the mutant's file, and all others only when those pass."""
    nearest = str(Path("tests/unit") / Path(mutant.file).parent)
    near = [(nearest,)] if (copy / nearest).is_dir() and nearest not in TESTS else []
    return any(_tests_fail(copy, *tests) for tests in (*near, TESTS))


def _tests_fail(copy: Path, *tests: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    env = os.environ | {
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        # CPython 3.11 fails when it parses a line for a traceback while it parses another
        "PYTHONNODEBUGRANGES": "1",
        VERSION_VARIABLE: version(),  # else a mutant could die of schedules that are new to all
    }
    try:
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return True  # a request hangs, which is a failure as well
    if done.returncode not in (0, _FAILED):
        raise SystemExit(f"The tests cannot be run: {done.stdout.decode()[-2000:]}")
    return done.returncode == _FAILED


if __name__ == "__main__":
    sys.exit(main())
