"""One page of HTML that says what a comparison found, readable without any other file or host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from string import Template

from models.atomic_write import atomic_write
from models.evaluation.chart import bars
from models.evaluation.comparison import POLICY, CityRun, Comparison
from models.evaluation.figures import (
    INCIDENTS,
    MEASURES,
    WALKS,
    Figures,
    Measure,
    delay_of,
    queue_at,
)
from models.simulation.scenario import Scenario
from models.sumo.net import load_net

PAGE = "evaluation.html"
TEMPLATE = Path(__file__).with_name("page.html")
DELAY = MEASURES["delay"]
JAMMED = 0.9  # of the vehicles that arrive under the controller that lets most arrive

MEANINGS = {
    "fixed time": "The programs of the net, as they are, also where they are actuated.",
    "Webster": "The net's phases, with cycle and green times by Webster's formula for the routes of"
    " all vehicles of this very traffic, as one run with seed 0 has them.",
    "actuated": "SUMO's actuated control with the net's phases: a green continues while vehicles"
    " come.",
    "delay-based": "SUMO's delay-based control with the net's phases: a green continues while"
    " vehicles that come lose time.",
    "max pressure": "At every decision the phase with the most vehicles standing before it, less"
    " those that stand where they would go.",
    "greedy": "At every decision the phase with the most vehicles on the lanes that it serves.",
    POLICY: "The file's most probable phase at every decision, from empty hidden states on, by the"
    " code that serves it.",
}


def write_page(comparison: Comparison, runs: Sequence[CityRun], path: Path) -> None:
    with atomic_write(path) as file:
        file.write(page_of(comparison, runs).encode())


def page_of(comparison: Comparison, runs: Sequence[CityRun]) -> str:
    """Return the page's HTML; the same runs make the same page."""
    figures = Figures(runs)
    name = comparison.scenario.network.name
    return Template(TEMPLATE.read_text()).substitute(
        title=escape(f"{name}: {len(figures.controllers)} signal controllers compared"),
        summary="".join(f"<p>{each}</p>" for each in _summary(figures, runs)),
        chart=bars(
            "Delay by controller",
            {each: figures.mean(each, DELAY) for each in figures.ranking(DELAY)},
            {each: list(figures.values(each, DELAY)) for each in figures.controllers},
        ),
        measures=_measures(figures),
        pedestrians=_pedestrians(figures, runs),
        classes=_classes(figures, runs),
        incidents=_incidents(figures, runs),
        sureness=_sureness(figures),
        winners=escape(_winners(figures)),
        queues=_queues(figures),
        controllers=_words(
            (each, MEANINGS[each] + (f" ({comparison.policy})" if each == POLICY else ""))
            for each in figures.controllers
        ),
        rules=_words(_rules(comparison, runs)),
    )


def _summary(figures: Figures, runs: Sequence[CityRun]) -> Iterable[str]:
    best, *others = figures.equals(DELAY)
    mean = figures.mean(best, DELAY).text()
    yield f'<b class="best">{escape(best)}</b> has the least delay: {mean} s per vehicle.'
    if len(figures.seeds) < 2:
        yield '<span class="warn">A single seed says nothing about how sure that is.</span>'
    elif others:
        yield f"The seeds do not tell it from {escape(_listed(others))}."
    else:
        yield "It is better than every other by more than chance explains (95 %, each alone)."
    if best != "fixed time":
        saved = figures.mean("fixed time", DELAY).mean - figures.mean(best, DELAY).mean
        share = saved / figures.mean("fixed time", DELAY).mean
        yield f"That is {saved:.1f} s, or {share:.0%}, less than with the net's own programs."
    arrived = {
        each: figures.mean(each, lambda run: run.arrived).mean for each in figures.controllers
    }
    for name, number in arrived.items():
        if number < JAMMED * max(arrived.values()):
            yield (
                f'<span class="warn">Under {escape(name)} only {number:.0f} of'
                f" {runs[0].demanded} vehicles arrived: the city jammed.</span>"
            )


def _measures(figures: Figures) -> str:
    equals = {name: figures.equals(measure) for name, measure in MEASURES.items()}
    rows = [
        [
            _cell(each),
            *(
                _cell(figures.mean(each, measure).text(), each in equals[name])
                for name, measure in MEASURES.items()
            ),
            _cell(figures.mean(each, lambda run: run.arrived).text(0)),
            _cell(f"{figures.mean(each, lambda run: run.demanded).mean:.0f}"),
        ]
        for each in figures.controllers
    ]
    heads = [f"{name}, s" for name in MEASURES]
    return _table(["controller", *heads, "arrived", "demanded"], rows)


def _pedestrians(figures: Figures, runs: Sequence[CityRun]) -> str:
    """Return the section on pedestrians; empty if the traffic has only vehicles."""
    if not any(run.walks for run in runs):
        return ""
    rows = [
        [_cell(each), *(_cell(figures.mean(each, measure).text()) for measure in WALKS.values())]
        for each in figures.controllers
    ]
    table = _table(["controller", *(f"{name}, s" for name in WALKS)], rows)
    return (
        f'<h2>Pedestrians</h2><div class="wide">{table}</div><p class="note">Time that'
        f" {runs[0].walks} pedestrians lost against walking freely: means over the seeds. Max"
        " pressure and greedy count those who wait; the others do not observe them.</p>"
    )


def _classes(figures: Figures, runs: Sequence[CityRun]) -> str:
    """Return the section on classes of vehicles; empty if there is one."""
    everywhere = [each for each in runs[0].classes if all(each in run.classes for run in runs)]
    if len(everywhere) < 2:
        return ""
    rows = [
        [_cell(each), *(_cell(figures.mean(each, delay_of(name)).text()) for name in everywhere)]
        for each in figures.controllers
    ]
    heads = [f"{name} ({runs[0].classes[name][0]}), s" for name in everywhere]
    table = _table(["controller", *heads], rows)
    return (
        f'<h2>Classes of vehicles</h2><div class="wide">{table}</div><p class="note">Delay by'
        " SUMO's class of vehicles, and their number in the first run.</p>"
    )


def _incidents(figures: Figures, runs: Sequence[CityRun]) -> str:
    if not any(measure(run) for measure in INCIDENTS.values() for run in runs):
        return "<p>No run had a collision, a teleport or emergency braking.</p>"
    rows = [
        [
            _cell(each),
            *(_cell(figures.mean(each, measure).text()) for measure in INCIDENTS.values()),
        ]
        for each in figures.controllers
    ]
    return (
        f'<div class="wide">{_table(["controller", *INCIDENTS], rows)}</div><p class="note">As SUMO'
        " counts them in a run: means over the seeds. A vehicle that collides is teleported to its"
        " next edge, unless the configuration has another collision.action.</p>"
    )


def _sureness(figures: Figures) -> str:
    if len(figures.seeds) < 2:
        return "<p>With one seed there is no interval. Run ten, or more.</p>"
    best, *others = figures.ranking(DELAY)
    n = len(figures.seeds)
    rows = []
    for each in others:
        beyond = figures.beyond(each, best, DELAY)
        verdict = "clearly more" if beyond.is_clear else "no clear difference"
        cells = each, beyond.estimate.text(), f"{beyond.worse} of {n}", verdict
        rows.append([_cell(text) for text in cells])
    head = ["controller", f"delay beyond {best}, s", "seeds with more", "verdict"]
    return (
        f"<p>All drive the same {n} seeds, so the differences are taken seed by seed, which"
        " leaves out much of the chance. Where the interval is above zero, the difference is more"
        f' than chance explains.</p><div class="wide">{_table(head, rows)}</div>'
    )


def _winners(figures: Figures) -> str:
    firsts = [figures.ranking(queue_at(each))[0] for each in figures.junctions]
    counts = {each: firsts.count(each) for each in figures.controllers if each in firsts}
    winners = [f"{name} at {n}" for name, n in sorted(counts.items(), key=lambda item: -item[1])]
    return f"Of {len(firsts)} signals, the fewest vehicles stand with {_listed(winners)}."


def _queues(figures: Figures) -> str:
    rows = []
    for junction in figures.junctions:
        measure: Measure = queue_at(junction)
        means = {each: figures.mean(each, measure) for each in figures.controllers}
        largest = max(each.mean for each in means.values()) or 1
        equals = figures.equals(measure)
        cells = [
            _cell(mean.text(), each in equals, f"--part:{mean.mean / largest:.0%}")
            for each, mean in means.items()
        ]
        rows.append([_cell(junction), *cells])
    return _table(["signal", *figures.controllers], rows)


def _rules(comparison: Comparison, runs: Sequence[CityRun]) -> Iterable[tuple[str, str]]:
    scenario, seeds = comparison.scenario, comparison.seeds
    hours = (scenario.end_s - scenario.begin_s) / 3600
    yield "Network", f"{len(scenario.network.junctions)} signals, in {scenario.net.name}"
    yield (
        "Traffic",
        f"{scenario.demand}, second {scenario.begin_s} to {scenario.end_s} ({hours:g} h), mean of"
        f" {sum(run.demanded for run in runs) / len(runs):.0f} vehicles",
    )
    yield "Seeds", f"{seeds[0]} to {seeds[-1]}"
    yield (
        "Decisions",
        f"every {scenario.decision_s} s, for max pressure, greedy and policy, with"
        f" {scenario.times}",
    )
    if scenario.detectors:
        yield "Detectors", "queues of max pressure, greedy and policy are estimated by them"
    yield "Other controllers", "with the yellow and red times of the net's programs"
    yield "Fixed time", _programs(scenario)
    if comparison.policy is not None:
        seen = "that stand" if scenario.counts == "standing" else "on them, standing or not"
        yield "The policy observes", f"its phase, and of each lane the share of vehicles {seen}"
    yield "Jams", "no vehicle is taken out of one (SUMO's teleporting is off)"
    if scenario.config is not None:
        yield (
            "Configuration",
            f"SUMO reads {scenario.config.name}; replaced are its seed, begin, end, teleporting and"
            " outputs",
        )
    yield "Simulator", f"SUMO {version('eclipse-sumo')}"
    yield "Digest of files and rules", comparison.same["city"]


def _programs(scenario: Scenario) -> str:
    """Return in words what runs under *fixed time*, be it a program of another type."""
    programs = load_net(scenario.net, scenario.program).programs
    signals = (programs[each.id] for each in scenario.network.junctions)
    kinds = Counter(known[-1].kind for known in signals)
    counted = _listed([f"{n} of type {kind}" for kind, n in sorted(kinds.items())])
    additional = ""
    if scenario.additional:
        additional = (
            f"; those in {_listed([path.name for path in scenario.additional])} replace them"
        )
    which = "the last program of each signal in the net"
    if scenario.program is not None:
        which = f"program {scenario.program}, or the last one of a signal without it"
    return f"{which}: {counted}{additional}"


def _words(rows: Iterable[tuple[str, str]]) -> str:
    body = "".join(_row([_cell(name), _cell(words)]) for name, words in rows)
    return f'<table class="words">{body}</table>'


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    return f"<table><tr>{head}</tr>{''.join(map(_row, rows))}</table>"


def _row(cells: Iterable[str]) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def _cell(text: str, best: bool = False, style: str = "") -> str:
    names = " ".join(name for name, is_so in (("best", best), ("queue", style)) if is_so)
    attributes = f' class="{names}"' * bool(names) + f' style="{style}"' * bool(style)
    return f"<td{attributes}>{escape(text)}</td>"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
