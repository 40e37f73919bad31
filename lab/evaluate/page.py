"""One printable page of HTML with the results of a comparison, readable without other files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
from lab.evaluate.summary import listed
from lab.evaluate.terms import MOST_APPROACHES, Terms
from lab.sim.daily_demand import HOUR_S
from lab.sim.details import slot_of
from lab.sim.scenario import Scenario
from models.atomic_write import atomic_write
from models.maps.phases_in_words import origin_in_words
from models.maps.road_map import road_map_of
from models.networks.form import road_of

PAGE = "evaluation.html"

MEANINGS = {
    "fixed time": "The programs that SUMO runs without a controller, also where they are actuated.",
    "Webster": "The net's phases, with cycle and green times by Webster's formula for the routes of"
    " all vehicles of this traffic, as one run with seed 0 has them.",
    "actuated": "SUMO's actuated control with the net's phases: a green continues while vehicles"
    " arrive.",
    "delay-based": "SUMO's delay-based control with the net's phases: a green continues while"
    " arriving vehicles lose time.",
    "max pressure": "At every decision the phase with the most vehicles standing before it, less"
    " those that stand where they would go.",
    "greedy": "At every decision the phase with the most vehicles on the lanes that it serves.",
    POLICY: "The file's most probable phase at every decision, from empty hidden states on, by the"
    " code that serves it.",
}


def write_page(comparison: Comparison, runs: Sequence[Run], path: Path) -> None:
    with atomic_write(path) as file:
        file.write(page_of(comparison, runs).encode())


def page_of(comparison: Comparison, runs: Sequence[Run]) -> str:
    """Return the page's HTML; the same runs make the same page."""
    scenario = comparison.scenario
    terms = list(_terms(comparison, runs))
    last = terms[-1]
    approaches = last.figures.approaches(last.best)
    loader = FileSystemLoader(Path(__file__).parent)
    template = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("page.html")
    return template.render(
        name=scenario.network.name,
        terms=terms,
        last=last,
        n_seeds=len(last.figures.seeds),
        map=Markup(draw_map(road_map_of(scenario.network), approaches, next(iter(approaches), ""))),
        demand=Markup(_demand_chart(scenario, runs[0].departures)),
        n_vehicles=sum(run.demanded for run in runs) / len(runs),
        first=runs[0],
        more_approaches=len(approaches) - MOST_APPROACHES,
        controllers=[
            (each, MEANINGS[each] + (f" ({comparison.policy})" if each == POLICY else ""))
            for each in terms[0].figures.controllers
        ],
        has_policy=comparison.policy is not None,
        has_calls=scenario.network.pedestrian_calls,
        rules=list(_rules(comparison, runs)),
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


def _clock(second: int) -> str:
    return f"{second // HOUR_S}:{second // 60 % 60:02}"


def _rules(comparison: Comparison, runs: Sequence[Run]) -> Iterable[tuple[str, str]]:
    scenario, seeds = comparison.scenario, comparison.seeds
    deciding = ["max pressure", "greedy", *([POLICY] if comparison.policy else [])]
    hours = (scenario.end_s - scenario.begin_s) / HOUR_S
    yield "Network", f"{len(scenario.network.junctions)} signals, in {scenario.net.name}"
    yield (
        "Traffic",
        f"{scenario.demand}, second {scenario.begin_s} to {scenario.end_s} ({hours:g} h), mean of"
        f" {sum(run.demanded for run in runs) / len(runs):.0f} vehicles",
    )
    yield "Seeds", f"{seeds[0]} to {seeds[-1]}"
    yield (
        "Decisions",
        f"every {scenario.decision_s} s, for {listed(deciding)}, with {scenario.times}",
    )
    if scenario.detectors:
        yield "Detectors", f"queues of {listed(deciding)} are estimated by them"
    yield "Other controllers", "with the yellow and red times of the net's programs"
    if comparison.safety:
        yield (
            "Safety layer",
            f"sets the changes of {listed(['actuated', 'delay-based', *deciding])}; fixed time and"
            " Webster have those of the net's programs",
        )
    yield "Fixed time", _programs(scenario)
    if comparison.policy is not None:
        seen = "that stand" if scenario.counts == "standing" else "on them, standing or not"
        yield "The policy observes", f"its phase, and of each lane the share of vehicles {seen}"
    yield "Jams", "no vehicle is taken out of one (SUMO's teleporting is off)"
    yield "Emissions", "SUMO's HBEFA values, by the emission class of each vehicle type"
    if (configured := scenario.configured) is not None:
        replaced = ", ".join(configured.replaced)
        yield "Configuration", f"{configured.path.name}, without its options {replaced}"
    yield "Simulator", f"SUMO {SUMO}"
    yield "Digest of files and rules", comparison.same["city"]


def _programs(scenario: Scenario) -> str:
    """Return in words what runs under *fixed time*, be it a program of another type."""
    programs = scenario.sumo_net.programs
    signals = (programs[each.id] for each in scenario.network.junctions)
    kinds = Counter(known[-1].kind for known in signals)
    counted = listed([f"{n} of type {kind}" for kind, n in sorted(kinds.items())])
    which = "the last program of each signal in the net and additional files"
    if scenario.program is not None:
        which = f"program {scenario.program}, or the last one of a signal without it"
    return f"{which}: {counted}"
