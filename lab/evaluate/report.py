"""The reports of the studies on the shipped network: means over the seeds, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product, takewhile
from pathlib import Path
from statistics import median

import numpy as np

from lab.evaluate.cases import FALLBACKS, POLICY, STUDIES, names
from lab.evaluate.chart import picture
from lab.evaluate.runs import Run, means_of, medians_of, values_of
from lab.evaluate.statistics import estimate
from lab.tables import markdown

CROP = 2.5  # bars beyond this multiple of the policy's are cut off
SERVED = 0.97  # share of an even demand, below which queues grow
RUSH_HOUR = "rush hour, 7:30"
ALL_POLICY = "policy that counts all vehicles"
SAFE_POLICY = "policy trained behind the safety layer"
DIAGNOSED_POLICY = "policy with diagnosis"
MEASURES = {
    "delay_s": "time loss, s per vehicle",
    "waiting_s": "waiting, s per vehicle",
    "trip_s": "travel time, s per vehicle",
    "served": "throughput, vehicles arrived in the hour",
    "queue": "standing vehicles, mean of the hour",
}

COMPARED = [STUDIES[POLICY][name] for name in ("compared", "rules")]
CASES = sorted(
    (case for group in COMPARED for case in group.cases),
    key=lambda case: (case.guarded, case.is_policy),
)

Cells = Mapping[tuple[str, str], object]  # by row and column


def write_policy_report(runs: Sequence[Run], folder: Path) -> None:
    """Write ``policy.md`` and ``policy.svg``."""
    levels, controllers = names(COMPARED[0].traffic), names(CASES)
    compared = _of(runs, levels, controllers)
    tables = {measure: means_of(compared, measure) for measure in MEASURES}
    lines = [
        "# The policy and its peers",
        "",
        f"Means of {_n_seeds(compared)} seeds with 95 % intervals, from `make evaluate`; every run"
        " is a row",
        "of `policy_runs.csv`. Max pressure, pressure within 100 m and longest queue have"
        f" {COMPARED[1].seeds} seeds.",
        "All controllers met the same vehicles: those that were to depart in the hour, after 15",
        "minutes of warm-up. Runs go on until the town is empty, for at most 15 minutes.",
        "",
        "![Time loss and waiting by level and controller](policy.svg)",
    ]
    for measure, title in MEASURES.items():
        lines += _table(f"{title[0].upper()}{title[1:]}", tables[measure], levels, controllers)
    lines += _table(
        "Median and interquartile mean of the time loss, s per vehicle (jammed runs)",
        medians_of(compared),
        levels,
        controllers,
    )
    lines += _table(
        "Time loss of the policies that count all vehicles less that of a peer under the same"
        " rules, seed by seed, s per vehicle",
        _differences(compared),
        levels,
        [each for each in controllers if each not in (ALL_POLICY, SAFE_POLICY)],
    )
    lines += _outages(runs) + _stress(runs) + _diagnosis(runs)
    folder.mkdir(parents=True, exist_ok=True)
    Path(folder, "policy.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
    charts = []
    for level, measure in product(levels, ("delay_s", "waiting_s")):
        values = values_of(compared, measure)
        bars = {name: values[level, name] for name in controllers}
        most = CROP * tables[measure][level, POLICY].mean
        charts.append((f"{level}: {MEASURES[measure]}", bars, most))
    Path(folder, "policy.svg").write_text(picture(charts), encoding="utf-8")


def write_order_report(runs: Sequence[Run], folder: Path) -> None:
    """Write the table of what the phases' cyclic order costs each controller."""
    group, losses = STUDIES["cyclic"]["compared"], values_of(runs, "delay_s")
    free = {
        replace(each, name="", cyclic=True): each.name for each in group.cases if not each.cyclic
    }
    cells: dict[tuple[str, str], str] = {}
    for level, case in group.cells():
        measured = losses[level.name, case.name]
        cells[case.name, level.name] = f"{estimate(measured)}"
        if case.cyclic:
            before = losses[level.name, free[replace(case, name="")]]
            cells[case.name, level.name] += f" ({estimate(np.subtract(measured, before))})"
    title = (
        "Time loss with and without the phases' cyclic order, and its price seed by seed,"
        f" {_n_seeds(runs)} seeds, s per vehicle"
    )
    table = _table(title, cells, names(group.cases), names(group.traffic))
    text = "\n".join([*table[1:], ""]).removeprefix("#")
    Path(folder, "phase_order.md").write_text(text, encoding="utf-8")


def detector_table(runs: Sequence[Run]) -> str:
    """Return the table of the time loss by layout of detectors."""
    group = STUDIES["detectors"]["compared"]
    title = f"Time loss by layout of detectors, {_n_seeds(runs)} seeds, s per vehicle"
    cells = means_of(runs, "delay_s")
    return "\n".join(_table(title, cells, names(group.traffic), names(group.cases))[1:])


def capacity_table(runs: Sequence[Run]) -> str:
    """Return the table of how much of an even demand each controller serves, and its capacity."""
    group = STUDIES["capacity"]["compared"]
    demanded, served = values_of(runs, "demanded"), values_of(runs, "served")
    shares = {cell: median(np.divide(served[cell], demanded[cell])) for cell in served}
    levels = names(group.traffic)
    hourly = {each: median(demanded[each, group.cases[0].name]) for each in levels}
    rows = []
    for case in names(group.cases):
        of_case = [shares[each, case] for each in levels]
        n_served = len([*takewhile(lambda share: share >= SERVED, of_case)])
        capacity = [0, *hourly.values()][n_served]
        rows.append([case, *(f"{100 * share:.0f} %" for share in of_case), f"{capacity:.0f}"])
    heads = ["", *(f"{number:.0f}/h" for number in hourly.values()), "capacity, vehicles/h"]
    return "\n".join(markdown(heads, rows))


def persons_table(runs: Sequence[Run]) -> str:
    """Return the table of what vehicles and pedestrians lose where people cross."""
    heads = ["", "", "delay of vehicles, s", "against no crossings", "pedestrians"]
    heads += ["their delay, s", "95th percentile", "longest", "longest red of a crossing"]
    delays, rows = values_of(runs, "delay_s"), []
    for group in STUDIES["persons"].values():
        for traffic, case in group.cells():
            cell = traffic.name, case.name
            own, bare = delays[cell], delays.get((group.traffic[0].name, case.name), delays[cell])
            more = estimate([100 * (one / of - 1) for one, of in zip(own, bare, strict=True)])
            row = [*cell, estimate(own), f"{more} %" if len(group.traffic) > 1 else ""]
            mine = [run for run in runs if (run.traffic, run.controller) == cell]
            rows.append([*row, *(_walked(mine) if any(run.walks for run in mine) else [""] * 5)])
    return "\n".join(markdown(heads, rows, texts=2))


def _walked(runs: Sequence[Run]) -> list[object]:
    red_s = max(run.walk_red_s for run in runs)
    return [
        f"{estimate([run.walks for run in runs]).mean:.0f}",
        estimate([run.walk_delay_s for run in runs]),
        estimate([run.walk_delay_95_s for run in runs]),
        f"{max(run.walk_delay_longest_s for run in runs):.0f}",
        f"{red_s:.0f}" if red_s else "",
    ]


def _of(runs: Iterable[Run], traffic: Sequence[str], controllers: Sequence[str]) -> list[Run]:
    return [run for run in runs if run.traffic in traffic and run.controller in controllers]


def _n_seeds(runs: Iterable[Run]) -> int:
    return len({run.seed for run in runs})


def _outages(runs: Sequence[Run]) -> list[str]:
    """Return the table of what an outage costs with either fallback, between what it may cost."""
    group, means = STUDIES[POLICY]["outages"], means_of(runs, "delay_s")
    known = {(case.outage, case.fallback): (RUSH_HOUR, case.name) for case in group.cases}
    bounds = {"no outage": POLICY, "fixed time all the time": "fixed time"}
    cells = {cell: means[place] for cell, place in known.items()} | {
        (row, each): means[RUSH_HOUR, name] for row, name in bounds.items() for each in FALLBACKS
    }
    outages = dict.fromkeys(case.outage for case in group.cases)
    title = f"Time loss in outages by what the gateway falls back to, {RUSH_HOUR}, s per vehicle"
    return _table(title, cells, ["no outage", *outages, "fixed time all the time"], [*FALLBACKS])


def _stress(runs: Sequence[Run]) -> list[str]:
    """Return the table of faults, other routes and other hours."""
    groups = [STUDIES[POLICY][name] for name in ("broken", "unusual", "hours")]
    traffic = [name for group in groups for name in names(group.traffic)]
    concerned = {name for group in groups for name in names(group.cases)}
    runs = _of(runs, traffic, sorted(concerned))
    title = (
        "Time loss where detectors fail, traffic goes other ways, and in other hours,"
        f" {_n_seeds(runs)} seeds, s per vehicle"
    )
    controllers = [each for each in names(CASES) if each in concerned]
    return _table(title, means_of(runs, "delay_s"), traffic, controllers)


def _diagnosis(runs: Sequence[Run]) -> list[str]:
    """Return the table of what diagnosis costs, and saves."""
    losses = {(run.traffic, run.controller, run.seed): run.delay_s for run in runs}
    seeds = sorted({run.seed for run in runs if run.controller == DIAGNOSED_POLICY})
    columns = ["no fault", POLICY, DIAGNOSED_POLICY, "more than without fault"]
    rows = []
    for traffic in STUDIES[POLICY]["diagnosis"].traffic:
        healthy = traffic.without_fault or traffic.name
        cells = (healthy, POLICY), (traffic.name, POLICY), (traffic.name, DIAGNOSED_POLICY)
        measured = [[losses[*cell, seed] for seed in seeds] for cell in cells]
        more = f"{100 * (sum(measured[2]) / sum(measured[0]) - 1):.1f} %"
        rows.append([traffic.name, *map(estimate, measured), more])
    title = f"Time loss with diagnosis of the detectors, {len(seeds)} seeds, s per vehicle"
    return ["", f"## {title}", "", *markdown(["", *columns], rows)]


def _differences(runs: Sequence[Run]) -> Cells:
    """Paired by seed: much of the chance in the demand cancels out."""
    losses = values_of(runs, "delay_s")
    ours = {case.name: SAFE_POLICY if case.guarded else ALL_POLICY for case in CASES}
    return {
        (level, name): estimate(np.subtract(losses[level, ours[name]][: len(measured)], measured))
        for (level, name), measured in losses.items()
    }


def _table(title: str, cells: Cells, rows: Sequence[str], columns: Sequence[str]) -> list[str]:
    body = ([row, *(cells.get((row, column), "") for column in columns)] for row in rows)
    return ["", f"## {title}", "", *markdown(["", *columns], body)]
