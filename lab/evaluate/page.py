"""One printable page of HTML with the results of a comparison, readable without other files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lab.evaluate.cases import POLICY
from lab.evaluate.chart import columns
from lab.evaluate.city_map import draw_map
from lab.evaluate.comparison import Comparison
from lab.evaluate.figures import Figures
from lab.evaluate.runs import SUMO, Run
from lab.evaluate.terms import MOST_APPROACHES, Terms, listed
from lab.sim.controllers import BY_QUEUES
from lab.sim.daily_demand import HOUR_S
from lab.sim.details import slot_of
from lab.sim.scenario import Scenario
from models.atomic_write import atomic_write
from models.maps.phases_in_words import origin_in_words
from models.maps.road_map import road_map_of
from models.networks.form import road_of

PAGE = "evaluation.html"


def write_page(comparison: Comparison, runs: Sequence[Run], path: Path) -> None:
    with atomic_write(path) as file:
        file.write(page_of(comparison, runs).encode())


def page_of(comparison: Comparison, runs: Sequence[Run]) -> str:
    """Return the page's HTML; the same runs make the same page."""
    scenario = comparison.scenario
    programs, junctions = scenario.sumo_net.programs, scenario.network.junctions
    terms = list(_terms(comparison, runs))
    last = terms[-1]
    approaches = last.figures.approaches(last.best)
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"listed": listed, "in_one_line": _in_one_line}
    return environment.get_template("page.html").render(
        name=scenario.network.name,
        terms=terms,
        last=last,
        n_seeds=len(last.figures.seeds),
        map=Markup(draw_map(road_map_of(scenario.network), approaches, next(iter(approaches), ""))),
        demand=Markup(_demand_chart(scenario, runs[0].departures)),
        n_vehicles=sum(run.demanded for run in runs) / len(runs),
        first=runs[0],
        more_approaches=len(approaches) - MOST_APPROACHES,
        comparison=comparison,
        scenario=scenario,
        kinds=sorted(Counter(programs[each.id][-1].kind for each in junctions).items()),
        deciding=[*BY_QUEUES, *([POLICY] if comparison.policy else [])],
        sumo=SUMO,
    )


def _terms(comparison: Comparison, runs: Sequence[Run]) -> Iterator[Terms]:
    """Yield the runs without the safety layer, and those behind it if there are any."""
    cases = {case.name: case for case in comparison.cases}
    places = places_of(comparison.scenario)
    for guarded, words in ((False, "without the safety layer"), (True, "behind the safety layer")):
        chosen = [
            replace(run, controller=cases[run.controller].control)
            for run in runs
            if cases[run.controller].guarded == guarded
        ]
        if chosen:
            yield Terms(words, Figures(chosen), places)


def places_of(scenario: Scenario) -> dict[str, str]:
    """Return by road its street, id and direction: ``Mill Road (e7), from the west at Center``."""
    streets = scenario.sumo_net.streets
    places = {}
    for junction in scenario.network.junctions:
        for lane in junction.lanes:
            road = road_of(lane.id)
            name = f"{streets[road]} ({road})" if road in streets else road
            start = f"from the {origin_in_words(lane.shape)} " if lane.shape else ""
            places[road] = f"{name}, {start}at {junction.name or junction.id}"
    return places


def _demand_chart(scenario: Scenario, departures: Sequence[int]) -> str:
    slot_s = slot_of(scenario.begin_s, scenario.end_s)
    labels = [_clock(scenario.begin_s + number * slot_s) for number in range(len(departures))]
    return columns("Demand", [each * HOUR_S / slot_s for each in departures], labels)


def _in_one_line(text: str) -> Markup:
    return Markup(" ").join(Markup(text).split())


def _clock(second: int) -> str:
    return f"{second // HOUR_S}:{second // 60 % 60:02}"
