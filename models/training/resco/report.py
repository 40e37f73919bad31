"""Table and plot of the scoreboard."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from pathlib import Path

from matplotlib.figure import Figure

from models.training.evaluation_report import Estimate, estimate
from models.training.resco import published
from models.training.resco.cells import Result

MEASURES = {"delay_s": "Delay", "waiting_s": "Waiting", "trip_s": "Trip time"}
HEAD = """# Controllers on RESCO's scenarios

`make resco RESCO=folder` makes this page: classic controllers and trained ones, on six public
scenarios of Cologne and Ingolstadt, an hour of traffic each, in one SUMO and under the rules of the
benchmark: a decision every 10 s, 3 s of yellow in it where the phase changes, no teleporting. The
scenarios come from <https://github.com/Pi-Star-Lab/RESCO> (`resco_benchmark/environments`); their
licences (CC BY-NC-SA 3.0 for Cologne, GPL-3.0 for Ingolstadt) keep them out of this repository.

Delay is the mean over all vehicles of time loss and wait to depart; one that never departed counts
its wait until the end of the hour. Intervals are Student's, 95 %, over the seeds; where one is as
wide as its mean, some seeds ended in a jam that did not dissolve. The most seeds that a controller
of a map has run are told; a map that is missing, or has fewer than ten, was not run to the end.

- *fixed time*: the nets' own programs. *Webster*: their phases, with cycle and splits for the
  movements' flows of one run, with a seed of its own, of the nets' own programs in this hour.
- *actuated*, *delay-based*: SUMO's, with the nets' phases and SUMO's defaults.
- *greedy*: the phase that serves the most vehicles. *max pressure*: the phase that serves the most
  standing vehicles, less those that stand where they would go. A lane's vehicles are shared evenly
  by its ways across the junction; a way that has to give way counts half.
- *trained*: the policy of [docs/training.md](training.md), one file for each map, which is not
  shipped; it has never seen these seeds. It observes all vehicles on each lane, as greedy does.
- *SB3 PPO*, where it was run: [a peer](peer.md), maskable PPO of Stable-Baselines3 with RESCO's
  reward and the same observations, from random weights on.

Greedy and max pressure jam in some seeds of cologne1 and cologne3 for ever. They may change from a
phase whose left turns give way to the crossing road's, with 3 s of yellow and no all-red; the left
turns of both roads then stand inside the junction in each other's way, and by the benchmark's rules
nobody is teleported out. This is left as it is. On ingolstadt21 every classic controller but
Webster's, which changes at set times, jams in some seeds ([why](training.md#where-a-city-jams)).
"""


def write_report(results: Sequence[Result], page: Path) -> None:
    """Write a page of Markdown, and beside it the plot and a CSV of every run."""
    page.write_text(HEAD + "\n".join(_lines(results, page.with_suffix(".png").name)) + "\n")
    _plot(results, page.with_suffix(".png"))
    with page.with_suffix(".csv").open("w", newline="") as file:
        runs = csv.writer(file, lineterminator="\n")
        runs.writerows([Result._fields, *results])


def _lines(results: Sequence[Result], picture: str) -> Iterator[str]:
    controllers, maps = _names(results)
    yield from ("", f"![Delay by map and controller]({picture})", "", "[Every run](resco.csv)")
    for measure, title in MEASURES.items():
        yield from ("", f"## {title}, seconds per vehicle", "")
        yield _row(["map", "seeds", *controllers])
        yield _row(["---", *["---:"] * (len(controllers) + 1)])
        for name in maps:
            cells = {each: cell(results, name, each, measure) for each in controllers}
            yield _row([name, _seeds(results, name), *map(_shown, cells.values())])
    yield from ("", "## As published, with SUMO 1.9", "", published.__doc__ or "", "")
    yield "Other versions of SUMO give other figures: these are context, and no comparison."
    yield from ("", _row(["map", *published.CONTROLLERS]))
    yield _row(["---", *["---:"] * len(published.CONTROLLERS)])
    for name in maps:
        yield _row([name, *map(str, published.PUBLISHED[name])])
    yield from ("", f"Made with SUMO {', '.join(sorted({each.sumo for each in results}))}.")


def cell(results: Iterable[Result], name: str, controller: str, measure: str) -> Estimate | None:
    """Return mean and interval of a controller on a map, None where it has no run."""
    values = [
        getattr(each, measure)
        for each in results
        if (each.map, each.controller) == (name, controller)
    ]
    return estimate(values) if values else None


def _names(results: Sequence[Result]) -> tuple[list[str], list[str]]:
    controllers = list(dict.fromkeys(each.controller for each in results))
    return controllers, [name for name in published.MAPS if any(r.map == name for r in results)]


def _seeds(results: Iterable[Result], name: str) -> str:
    return str(len({each.seed for each in results if each.map == name}))


def _shown(value: Estimate | None) -> str:
    if value is None:
        return ""
    return f"{value.mean:.1f}" if isnan(value.half_width) else str(value)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plot(results: Sequence[Result], path: Path) -> None:
    controllers, maps = _names(results)
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    for axes, name in zip(figure.subplots(2, 3).flat, maps, strict=False):
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
