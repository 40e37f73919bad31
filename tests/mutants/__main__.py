"""Puts single defects into the engine of states; the tests of each must fail.

A defect that no test finds is a guard that nothing tests, or that is not needed: write the test, or
remove the guard. The tests run on a copy of the source, within seconds for a defect.

    python -m tests.mutants --only receipt
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from tests.mutants.written import MUTANTS, ROOT, Mutant

TESTS = [
    "tests/unit/states/test_table.py",
    "tests/unit/states/test_batcher.py",
    "tests/unit/states/test_contract.py",
    "tests/unit/states/test_processes.py",
]
COPIED = ["pyproject.toml", "deployments", "tests/support", "tests/unit/states"]
COPIED += [f"tests/{name}.py" for name in ("__init__", "conftest", "unit/__init__")]
TIMEOUT_S = 200
# The first failure is enough, so that Hypothesis need not look for a shorter example of it.
CONFTEST = """
from hypothesis import Phase, settings

settings.register_profile("mutants", phases=[Phase.generate], database=None)
settings.load_profile("mutants")
"""
PYTEST = [
    *("-m", "pytest", "-x", "-q", "--tb=no", "-rfE"),
    *("-p", "no:cacheprovider", "-p", "no:xdist", "-o", "timeout=60"),
]

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="defects whose file or name has this text")
    options = parser.parse_args()
    chosen = [each for each in MUTANTS if options.only in f"{each.file}: {each.name}"]
    for mutant in chosen:
        mutant.changed((ROOT / mutant.path).read_text())
    survivors = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["cp", "-r", "--parents", *COPIED, folder], cwd=ROOT, check=True)
        (folder / "conftest.py").write_text(CONFTEST)
        if failed := _first_failure(folder):
            parser.error(f"the tests fail without a defect: {failed}")
        for mutant in chosen:
            started = time.monotonic()
            killer = _judge(mutant, folder)
            seconds = time.monotonic() - started
            result = f"killed by {killer}" if killer else "SURVIVES"
            console.print(f"{seconds:5.1f} s  {mutant.file}: {mutant.name}: {result}", markup=False)
            if not killer:
                survivors.append(mutant)
    console.print(f"{len(chosen) - len(survivors)} of {len(chosen)} defects are found.")
    return 1 if survivors else 0


def _judge(mutant: Mutant, folder: Path) -> str:
    """Return the test that finds a defect; "" if none does."""
    path = folder / mutant.path
    source = path.read_text()
    path.write_text(mutant.changed(source))
    try:
        return _first_failure(folder)
    finally:
        path.write_text(source)


def _first_failure(folder: Path) -> str:
    """Run the tests in a folder; return the one that fails first, or ""."""
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, *PYTEST, *TESTS],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return "a test that hangs"
    if done.returncode == 0:
        return ""
    lines = done.stdout.splitlines()
    failed = [line.split(" ")[1] for line in lines if line.startswith(("FAILED", "ERROR"))]
    return failed[0].rpartition("/")[2] if failed else "the end of the process"


if __name__ == "__main__":
    sys.exit(main())
