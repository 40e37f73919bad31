"""Runs, compared, into a folder: a page, and every figure in CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from models.atomic_write import atomic_write
from models.training.comparison.page import page_of
from models.training.comparison.runs import CityRun, Comparison, compare

PAGE, RUNS, QUEUES = "evaluation.html", "runs.csv", "queues.csv"
KEPT = "runs"
MEASURES = ("controller", "seed", "delay_s", "waiting_s", "trip_s", "demanded", "arrived")


def evaluate(comparison: Comparison, folder: Path, workers: int) -> Path:
    """Make what the folder lacks of the runs, and write the page; returns its path.

    Raises:
        InvalidNetworkError, InvalidScenarioError, InvalidPolicyFileError: the files do not fit;
            nothing is written then.
        OSError: the folder cannot be written.
    """
    runs = compare(comparison, folder / KEPT, workers)
    for name, rows in ((RUNS, _of_runs(runs)), (QUEUES, _of_queues(runs))):
        _write(folder / name, _as_csv(rows))
    _write(folder / PAGE, page_of(comparison, runs))
    return folder / PAGE


def _of_runs(runs: Sequence[CityRun]) -> Iterable[Sequence[object]]:
    yield MEASURES
    for run in runs:
        yield [getattr(run, name) for name in MEASURES]


def _of_queues(runs: Sequence[CityRun]) -> Iterable[Sequence[object]]:
    yield "controller", "seed", "signal", "standing"
    for run in runs:
        for signal, standing in run.queues.items():
            yield run.controller, run.seed, signal, standing


def _as_csv(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode())
