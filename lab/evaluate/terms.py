"""The controllers of a comparison that have equal terms, and the page's tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from markupsafe import Markup

from lab.evaluate.chart import bars
from lab.evaluate.city_map import level_of
from lab.evaluate.figures import (
    EMISSIONS,
    INCIDENTS,
    MEASURES,
    WAITING,
    WALKS,
    Figures,
    Measure,
    delay_of,
)
from lab.evaluate.runs import Run
from lab.evaluate.statistics import GEH_OK, Estimate, geh
from lab.sim.metrics import Approach

MOST_APPROACHES = 40
OWN = "fixed time"  # the programs that SUMO runs
DELAY = MEASURES["delay"]
JAMMED = 0.9  # of the vehicles that arrive under the controller under which most arrive
SUMMED: dict[str, Measure] = {
    "delay": DELAY,
    "CO₂": EMISSIONS["CO₂, kg"],
    "most waiting": WAITING["95th percentile"],
    "longest wait": WAITING["longest"],
    "stops": lambda run: run.stops,
}


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        best: whether it is marked as the best of its kind.
    """

    text: str
    best: bool = False


class Table(NamedTuple):
    """Rows of cells, the first of which names the row."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Terms:
    """The controllers that are compared on equal terms.

    Attributes:
        name: of the terms, for people.
        places: by road, its name and direction in words.
    """

    name: str
    figures: Figures
    places: dict[str, str]

    @cached_property
    def equals(self) -> list[str]:
        """The controller with the least delay, and those whose difference from it is not clear."""
        return self.figures.equals(DELAY)

    @property
    def best(self) -> str:
        return self.equals[0]

    def of_best(self, name: str) -> Estimate:
        """Return the mean of one of SUMMED under the best controller."""
        return self.figures.mean(self.best, SUMMED[name])

    def saved(self, name: str) -> float:
        """Return the share of one of SUMMED that the best controller saves of that of OWN."""
        own = self.figures.mean(OWN, SUMMED[name]).mean if OWN in self.figures.controllers else 0.0
        return 1 - self.of_best(name).mean / own if own else 0.0

    @property
    def worst(self) -> tuple[str, Approach] | None:
        """The worst approach under the best controller, with its place in words."""
        first = next(iter(self.figures.approaches(self.best).items()), None)
        return None if first is None else (self.places[first[0]], first[1])

    @property
    def jams(self) -> dict[str, float]:
        """By controller under which the city jams, the vehicles that arrive."""
        names = self.figures.controllers
        arrived = {each: self.figures.mean(each, lambda run: run.arrived).mean for each in names}
        most = max(arrived.values())
        return {name: number for name, number in arrived.items() if number < JAMMED * most}

    @property
    def chart(self) -> Markup:
        figures = self.figures
        return Markup(
            bars(
                "Delay by controller",
                {each: list(figures.values(each, DELAY)) for each in figures.ranking(DELAY)},
            )
        )

    @property
    def measures(self) -> Table:
        measures = {f"{name}, s": measure for name, measure in MEASURES.items()}
        table = self._table({**measures, "stops": SUMMED["stops"]})
        counted = [
            [
                Cell(f"{self.figures.mean(each, measure).mean:.0f}")
                for measure in (lambda run: run.arrived, lambda run: run.demanded)
            ]
            for each in self.figures.controllers
        ]
        rows = [[*row, *more] for row, more in zip(table.rows, counted, strict=True)]
        return Table([*table.heads, "arrived", "demanded"], rows)

    @property
    def waiting(self) -> Table:
        """How waiting is distributed, with the worst approach of each controller."""
        table = self._table({f"{name}, s": measure for name, measure in WAITING.items()}, digits=0)
        rows = []
        for name, row in zip(self.figures.controllers, table.rows, strict=True):
            worst = next(iter(self.figures.approaches(name).items()), None)
            said = f"{self.places[worst[0]]}: {worst[1].wait_s:.0f} s" if worst else ""
            rows.append([*row, Cell(said)])
        return Table([*table.heads, "worst approach and its mean delay"], rows)

    @property
    def emissions(self) -> Table | None:
        return self._if_any(EMISSIONS, [EMISSIONS["fuel, kg"]])

    @property
    def sureness(self) -> Table | None:
        """Differences from the best controller; None for a single seed."""
        best, *others = self.figures.ranking(DELAY)
        if len(self.figures.seeds) < 2:
            return None
        rows = []
        for each in others:
            beyond = self.figures.beyond(each, best, DELAY)
            seeds = f"{beyond.worse} of {len(self.figures.seeds)}"
            verdict = "clear" if beyond.is_clear else "not clear"
            rows.append([Cell(text) for text in (each, beyond.estimate.text(), seeds, verdict)])
        heads = ["controller", f"delay beyond {best}, s", "seeds with more delay"]
        return Table([*heads, "the difference is"], rows)

    @property
    def approaches(self) -> Table:
        """The approaches under the best controller, the worst first."""
        rows = [
            [
                Cell(self.places[road]),
                Cell(f"{each.vehicles:.0f}"),
                Cell(f"{each.queue:.1f}"),
                Cell(f"{each.longest_queue:.0f}"),
                *(Cell(f"{s:.0f}") for s in (each.wait_s, each.wait_95_s, each.longest_wait_s)),
                Cell(level_of(each.wait_s)),
            ]
            for road, each in list(self.figures.approaches(self.best).items())[:MOST_APPROACHES]
        ]
        heads = ["approach", "vehicles", "mean queue", "longest queue", "mean delay, s"]
        return Table([*heads, "95th percentile, s", "longest delay, s", "level"], rows)

    def fit(self, counted: Mapping[str, float], hours: float) -> Table:
        """How far the traffic under the best controller is from counts per hour."""
        simulated = self.figures.approaches(self.best)
        rows = []
        for road, count in counted.items():
            made = simulated[road].vehicles / hours
            off = geh(made, count)
            texts = self.places[road], f"{count:.0f}", f"{made:.0f}"
            rows.append([*map(Cell, texts), Cell(f"{off:.1f}", off < GEH_OK)])
        return Table(["approach", "counted per hour", "simulated per hour", "GEH"], rows)

    @property
    def pedestrians(self) -> Table | None:
        """Delay of pedestrians; None if the traffic has only vehicles."""
        walks = {f"{name}, s": measure for name, measure in WALKS.items()}
        return self._if_any(walks, [lambda run: run.walks])

    @property
    def incidents(self) -> Table | None:
        return self._if_any(INCIDENTS, INCIDENTS.values(), marked=False)

    def classes(self, run: Run) -> Table | None:
        """Delay by class of vehicles; None if there is one."""
        if len(run.classes) < 2:
            return None
        names = {
            f"{name} ({number}), s": delay_of(name) for name, (number, _) in run.classes.items()
        }
        return self._table(names)

    def _if_any(
        self, measures: Mapping[str, Measure], seen: Iterable[Measure], marked: bool = True
    ) -> Table | None:
        """Return a table of measures; None if all values of others are zero."""
        figures = self.figures
        if any(figures.values(each, one).any() for one in seen for each in figures.controllers):
            return self._table(measures, marked=marked)
        return None

    def _table(
        self, measures: Mapping[str, Measure], digits: int = 1, marked: bool = True
    ) -> Table:
        """Return the mean of each measure for each controller, the best ones marked."""
        best = {name: self.figures.equals(one) if marked else [] for name, one in measures.items()}
        rows = [
            [
                Cell(each),
                *(
                    Cell(self.figures.mean(each, measure).text(digits), each in best[name])
                    for name, measure in measures.items()
                ),
            ]
            for each in self.figures.controllers
        ]
        return Table(["controller", *measures], rows)


def listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
