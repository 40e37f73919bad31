"""Simulations that are made once each: every one is kept as a JSON file as soon as it ends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lab.sim.processes import make_pool
from models.atomic_write import atomic_write

Run = Mapping[str, Any]


def make_runs(
    jobs: Mapping[Path, Callable[[], Run]], same: Run, workers: int
) -> dict[Path, dict[str, Any]]:
    """Make the runs whose files are not there, and return all, in the order of the jobs.

    Args:
        jobs: by the file that keeps it, what makes a run, in a separate process.
        same: what a kept run must agree in, such as SUMO's version; another is made anew.
    """
    done = {path: read_run(path, same) for path in jobs}
    with make_pool(workers) as pool:
        running = {pool.submit(jobs[path]): path for path in jobs if done[path] is None}
        try:
            for future in tqdm(as_completed(running), total=len(running), unit="run"):
                path = running[future]
                done[path] = run = dict(future.result())
                path.parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(path) as file:
                    file.write(json.dumps(run).encode())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {path: run for path, run in done.items() if run is not None}


def read_run(path: Path, same: Run) -> dict[str, Any] | None:
    """Return a kept run, None where there is none or it is one of something else."""
    if not path.exists():
        return None
    run: dict[str, Any] = json.loads(path.read_text())
    return run if run == {**run, **same} else None


def digest(path: Path) -> str:
    """Tell one file of weights, or of a plan, from another: runs count for what made them."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
