"""The page of RESCO's scenarios: tables beside published figures, and a plot."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

from lab.evaluate.cases import RESCO, STUDIES, names
from lab.evaluate.chart import picture
from lab.evaluate.runs import Run, means_of, medians_of, values_of
from lab.tables import markdown


class Measure(NamedTuple):
    """A table: its title, what the result of a run has in place of a missing figure, digits."""

    title: str
    instead: str | None = None
    digits: int = 1


MEASURES = {
    "delay_s": Measure("Delay, seconds per vehicle"),
    "resco_trip_s": Measure("Trip time, seconds per vehicle", "trip_s"),
    "resco_waiting_s": Measure("Waiting, seconds per vehicle", "waiting_s"),
    "resco_queue": Measure("Queue, vehicles per signal", digits=2),
}
MAPS = tuple(names(STUDIES[RESCO]["compared"].traffic))
CONTROLLERS = tuple(names(STUDIES[RESCO]["compared"].cases))
HEAD, PUBLISHED = (Path(__file__).with_name(f"resco{end}") for end in (".md", "_published.csv"))
COLUMNS = (
    *("traffic", "controller", "seed", "sumo", "delay_s", "waiting_s", "trip_s", "demanded"),
    *("arrived", "version", "resco_trip_s", "resco_waiting_s", "resco_queue", "resco_delay_s"),
)
LEARNERS = "IDQN", "IPPO", "MPLight", "FMA2C"
# What the tables show beside delay; the CSV file has all controllers.
SHOWN = "max pressure", "greedy", "pressure within 100 m", "trained"


def read_published(measure: str) -> dict[str, dict[str, float]]:
    """Return figures of others in SUMO 1.9, by algorithm and map.

    Source: J. Ault and G. Sharon, "Reinforcement Learning Benchmarks for Traffic Signal Control",
    NeurIPS 2021, Datasets and Benchmarks; https://github.com/Pi-Star-Lab/RESCO, revision fc65e91,
    ``resco_benchmark/utils``: ``avg_timeLoss.py``, ``avg_duration.py``, ``avg_waitingTime.py`` and
    ``avg_queue.py``. Of the learners, each figure is the best episode of the mean curve over all
    runs; of the others, the mean over all episodes.
    """
    with PUBLISHED.open(newline="") as file:
        return {
            row["algorithm"]: {name: float(row[name]) for name in MAPS if row[name]}
            for row in csv.DictReader(file)
            if row["measure"] == measure
        }


def write_report(runs: Iterable[Run], page: Path) -> None:
    """Write a page of Markdown, and beside it the plot."""
    known = [run for run in runs if run.traffic in MAPS and run.controller in CONTROLLERS]
    controllers, maps = (
        [each for each in parts if any(each in run.key for run in known)]
        for parts in (CONTROLLERS, MAPS)
    )
    chart = page.with_suffix(".svg")
    lines = _lines(known, controllers, maps, chart.name)
    page.write_text(HEAD.read_text() + "\n".join(lines) + "\n")
    delays = values_of(known, "delay_s")
    charts = [
        (name, {each: delays[name, each] for each in controllers if (name, each) in delays}, inf)
        for name in maps
    ]
    chart.write_text(picture(charts), encoding="utf-8")


def _lines(
    runs: Sequence[Run], controllers: Sequence[str], maps: Sequence[str], picture: str
) -> Iterator[str]:
    yield from ("", f"![Delay by map and controller]({picture})")
    for measure, (title, *_) in MEASURES.items():
        is_first = measure == "delay_s"
        shown = [each for each in controllers if is_first or each in SHOWN]
        best, cells = _best_published(measure), _cells(runs, measure)
        yield from ("", f"## {title}", "")
        yield from markdown(
            ["map", *shown, "published"],
            [[name, *(cells.get((name, each), "") for each in shown), best[name]] for name in maps],
        )
        if is_first:
            yield from _medians(runs, controllers, maps)
    yield from ("", f"Made with SUMO {', '.join(sorted({run.sumo for run in runs}))}.")


def _medians(runs: Sequence[Run], controllers: Sequence[str], maps: Sequence[str]) -> Iterator[str]:
    title = "Median and interquartile mean of the delay, seconds per vehicle (jammed runs)"
    yield from ("", f"## {title}", "")
    cells = medians_of(runs)
    yield from markdown(
        ["map", *controllers],
        ([name, *(cells.get((name, each), "") for each in controllers)] for name in maps),
    )


def _best_published(measure: str) -> dict[str, str]:
    """Return by map the lowest figure of the learners, and whose it is."""
    figures, digits = read_published(measure), MEASURES[measure].digits
    least = {name: min((figures[each][name], each) for each in LEARNERS) for name in MAPS}
    return {name: f"{figure:.{digits}f} {learner}" for name, (figure, learner) in least.items()}


def _cells(runs: Sequence[Run], measure: str) -> dict[tuple[str, str], str]:
    """Return the cells of a table; only delays have their intervals, for readable tables."""
    means = means_of(runs, measure)
    if measure != "delay_s":
        _, instead, digits = MEASURES[measure]
        replaced = {} if instead is None else means_of(runs, instead)
        cells = {cell: f"{value.mean:.1f}*" for cell, value in replaced.items()}
        return cells | {cell: f"{value.mean:.{digits}f}" for cell, value in means.items()}
    theirs = means_of(runs, "resco_delay_s")
    return {
        cell: f"{value} ({theirs[cell].mean:.1f})"
        if cell in theirs and abs(theirs[cell].mean - value.mean) > 0.05
        else str(value)
        for cell, value in means.items()
    }
