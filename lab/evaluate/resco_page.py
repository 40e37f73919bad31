"""The page of RESCO's scenarios: tables beside published figures, a plot, a CSV of every run."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from lab.evaluate.resco_measures import Result
from lab.evaluate.resco_published import MAPS, PUBLISHED
from lab.evaluate.statistics import Estimate, estimate


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
JAMMED, STUCK = 1.5, 1 / 3  # see the page
PAGE = Path(__file__).parents[2] / "docs/resco.md"
TEXTS = "map", "controller", "sumo", "policy"
LEARNERS = "IDQN", "IPPO", "MPLight", "FMA2C"
# What the tables show beside delay; the CSV file has all controllers.
SHOWN = "max pressure", "greedy", "pressure within 100 m", "trained"
HEAD = """# Controllers on RESCO's scenarios

`make resco RESCO=folder` makes this page: classic and trained controllers on eight public
scenarios, an hour of traffic each, in one SUMO, under the benchmark's rules: a decision every
10 s with 3 s of yellow where the phase changes, on arterial4x4 every 5 s with 2 s; no teleporting.
`python -m lab.evaluate.resco_page` writes it again from [every run](resco.csv).
The scenarios are those of <https://github.com/Pi-Star-Lab/RESCO> (`resco_benchmark/environments`),
grid4x4 and arterial4x4 with the first of their route files. Their licences (CC BY-NC-SA, GPL-3.0)
keep them out of this repository.

Intervals are Student's, 95 %, over the seeds (the column has the most that a controller ran). A run
is *jammed* if its delay is above 1.5 × the controller's median on that map, or more than a third of
its vehicles have not arrived at the end. One jam can double a mean, so medians are shown, too.

- *fixed time*: the nets' own programs. *Webster*: their phases, with cycle and splits for the
  movements' flows of one run, with a separate seed.
- *actuated*, *delay-based*: SUMO's, with the nets' phases and SUMO's defaults.
- *greedy*: the phase that serves the most vehicles. *max pressure*: the phase that serves the most
  standing vehicles, less those that stand where they would go. A lane's vehicles are shared evenly
  by its ways across the junction; a way that has to give way counts half. *cyclic max pressure*
  keeps the phases' [order](safety.md). *pressure within 100 m* counts all vehicles there, and
  changes for a lead of 0.5 to 3 vehicles (chosen for each map on seeds 50,001 and 50,002).
- *trained*: the policy of [docs/training.md](training.md), one file for each map, not shipped. It
  observes all vehicles on each lane. It was trained on other seeds, but `--standing-weight 1`
  (cologne3, ingolstadt1, ingolstadt7) and the mean of two files on cologne3 were
  [chosen](decisions/training.md#repeated-and-with-a-weight-on-standing) after results on these
  seeds were seen.
- *SB3 PPO*: [maskable PPO](../examples/stable_baselines3/README.md) of Stable-Baselines3 with
  RESCO's reward and the same observations, from random weights on.

Jams on cologne1 and cologne3: after a phase whose left turns give way, 3 s of yellow without
all-red leave both roads' left turns in each other's way. On ingolstadt21 every classic controller
but Webster's jams in some seeds ([why](training.md#where-a-city-jams)).

*published* is the best of four learners (IDQN, IPPO, MPLight, FMA2C; [all published
figures](../lab/evaluate/resco_published.py)): the best episode of its mean curve, with SUMO
1.9 and, on the first two maps, other routes in each episode. These figures are context and not a
bar: even the fixed-time programs, which nothing trains, have 9 to 24 % less delay here than
published, and 40 % more on ingolstadt21. The definitions are those of RESCO's code:

- **Delay**: time loss and wait to depart, mean over all vehicles; one that never departed waits
  until the end. In brackets, where it differs: without those that never departed but were planned
  before the last departure, which RESCO leaves out.
- **Trip time** and **waiting**: of the vehicles that departed, without the wait to depart, which
  cells with a star (earlier runs) include.
- **Queue**: vehicles within 200 m that stand or have stood there, mean over decisions, divided by
  the number of signals plus one.
"""


def write_report(results: Sequence[Result], page: Path) -> None:
    """Write a page of Markdown, and beside it the plot and a CSV of every run."""
    page.write_text(HEAD + "\n".join(_lines(results, page.with_suffix(".png").name)) + "\n")
    _plot(results, page.with_suffix(".png"))
    with page.with_suffix(".csv").open("w", newline="") as file:
        runs = csv.writer(file, lineterminator="\n")
        runs.writerows([Result._fields, *results])


def read_runs(file: Path) -> list[Result]:
    """Return the runs of a CSV that :func:`write_report` has written."""
    with file.open(newline="") as rows:
        return [
            Result(**{name: _value(name, text) for name, text in row.items()})
            for row in csv.DictReader(rows)
        ]


def _value(name: str, text: str) -> Any:
    return text if name in TEXTS else json.loads(text or "null")


def _lines(results: Sequence[Result], picture: str) -> Iterator[str]:
    controllers, maps = _names(results)
    yield from ("", f"![Delay by map and controller]({picture})")
    for measure, (title, *_) in MEASURES.items():
        is_first = measure == "delay_s"
        shown = [each for each in controllers if is_first or each in SHOWN]
        columns = [*(["seeds"] if is_first else []), *shown, "published"]
        yield from ("", f"## {title}", "", _row(["map", *columns]))
        yield f"|---{'|---:' * len(columns)}|"
        for name in maps:
            seeds = [_seeds(results, name)] if is_first else []
            cells = [_shown(results, name, each, measure) for each in shown]
            yield _row([name, *seeds, *cells, _best_published(measure, name)])
        if is_first:
            yield from _medians(results, controllers, maps)
    yield from ("", f"Made with SUMO {', '.join(sorted({each.sumo for each in results}))}.")


def _medians(
    results: Sequence[Result], controllers: Sequence[str], maps: Sequence[str]
) -> Iterator[str]:
    yield from (
        "",
        "## Median delay, seconds per vehicle, and in brackets how many runs jammed",
        "",
    )
    yield _row(["map", *controllers, "fixed time, published"])
    yield f"|---{'|---:' * (len(controllers) + 1)}|"
    for name in maps:
        published = PUBLISHED["delay_s"]["fixed time"][MAPS.index(name)]
        cells = [_median(results, name, each) for each in controllers]
        yield _row([name, *cells, "" if published is None else f"{published}"])


def _median(results: Iterable[Result], name: str, controller: str) -> str:
    runs = [each for each in results if (each.map, each.controller) == (name, controller)]
    if not runs:
        return ""
    middle_s = median(each.delay_s for each in runs)
    jammed = sum(
        each.delay_s > JAMMED * middle_s or each.arrived < (1 - STUCK) * each.demanded
        for each in runs
    )
    return f"{middle_s:.1f}" + (f" ({jammed} of {len(runs)})" if jammed else "")


def cell(results: Iterable[Result], name: str, controller: str, measure: str) -> Estimate | None:
    """Return mean and interval of a controller on a map, None where it has no run or no figure."""
    values = [
        getattr(each, measure)
        for each in results
        if (each.map, each.controller) == (name, controller)
    ]
    return None if not values or None in values else estimate(values)


def _best_published(measure: str, name: str) -> str:
    """Return the lowest figure of the learners, and whose it is."""
    figures = {each: PUBLISHED[measure][each][MAPS.index(name)] for each in LEARNERS}
    least, learner = min((figure, each) for each, figure in figures.items() if figure is not None)
    return f"{least:.{MEASURES[measure].digits}f} {learner}"


def _shown(results: Iterable[Result], name: str, controller: str, measure: str) -> str:
    """Return a cell of a table; only delays have their intervals, for readable tables."""
    value = cell(results, name, controller, measure)
    if value is not None and measure == "delay_s":
        theirs = cell(results, name, controller, "resco_delay_s")
        other = theirs is not None and abs(theirs.mean - value.mean) > 0.05
        return f"{value} ({theirs.mean:.1f})" if theirs is not None and other else str(value)
    if value is not None:
        return f"{value.mean:.{MEASURES[measure].digits}f}"
    instead = MEASURES[measure].instead
    value = None if instead is None else cell(results, name, controller, instead)
    return "" if value is None else f"{value.mean:.1f}*"


def _names(results: Sequence[Result]) -> tuple[list[str], list[str]]:
    controllers = list(dict.fromkeys(each.controller for each in results))
    return controllers, [name for name in MAPS if any(r.map == name for r in results)]


def _seeds(results: Iterable[Result], name: str) -> str:
    return str(len({each.seed for each in results if each.map == name}))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plot(results: Sequence[Result], path: Path) -> None:
    controllers, maps = _names(results)
    figure = Figure(figsize=(12, 5.2), layout="constrained")
    for axes, name in zip(figure.subplots(2, 4).flat, maps, strict=False):
        cells = [cell(results, name, each, "delay_s") for each in controllers]
        known = [(place, each) for place, each in enumerate(cells) if each is not None]
        axes.barh(
            [place for place, _ in known],
            [each.mean for _, each in known],
            xerr=[each.half_width for _, each in known],
            color="#9ecae1",
        )
        axes.set_yticks(range(len(controllers)), controllers)
        axes.invert_yaxis()
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("delay, s per vehicle")
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    write_report(read_runs(PAGE.with_suffix(".csv")), PAGE)
