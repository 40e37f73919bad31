"""Inject faults into separate systems under load, and report what they cost.

    services   kills parts of a whole system, changes its version: how long is a service away?
    states     kills, pauses and changes replicas, state actors and the store: is a step lost?

Without a name, both, one after the other: some forty minutes.

    make chaos ARGS="services --help"
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import httpx
from rich import box
from rich.console import Console
from rich.table import Table

from load_tests.chaos import service_experiments, service_faults, state_experiments, state_faults
from load_tests.chaos.checker import Harm
from load_tests.chaos.clients import ANSWERED
from load_tests.chaos.history import Outcome
from load_tests.chaos.service_experiments import ServiceResult
from load_tests.chaos.service_faults import ServiceFault
from load_tests.chaos.state_experiments import StateResult
from load_tests.chaos.state_faults import MODES, ApplicationUnderTest, StateFault
from load_tests.harness.command_line import names_of
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system import QUICK, System, running_system
from load_tests.harness.system_under_test import system_under_test
from serve_app.cli.foreground import exit_on_sigterm

SERVICES = """Kills the parts of a whole system one by one, and changes its version, well and badly,
under the load of clients of every service.

The system is started as `make up` does. The exit code is 1 when a service was away for longer than
it may be, clients saw something undocumented, a request failed because of a change, or something
acknowledged is gone.

    make chaos ARGS="services --only front,edge,code,rollback --seconds 8"
"""
STATES = """Kills, pauses and changes parts of a system under load, and counts what it costs over
HTTP: answered steps that were lost, steps that were made twice, states that survived a reset, and
the longest time without an answer for a run. No step may be lost in any mode.

The exit code is 1 when a promise of docs/hidden-states.md is broken.

    make chaos ARGS="states --faults replica,application --modes memory --seconds 12"
"""
_WORDS = ("fault", "mode", "outcomes", "promise", "until")
_UNTIL = {"back_s": "the first prediction", "whole_s": "every replica runs"}

console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)


def main(arguments: Sequence[str]) -> int:
    parts = {"services": run_services, "states": run_states}
    match arguments:
        case []:
            return max(run([]) for run in parts.values())
        case [("-h" | "--help"), *_]:
            sys.stdout.write(f"{__doc__}\n")
            return 0
        case [name, *options] if name in parts:
            return parts[name](options)
    known = ", ".join(parts)
    sys.stderr.write(f"Unknown part {arguments[0]!r}; known: {known}.\n")
    return 2


def run_services(arguments: Sequence[str]) -> int:
    faults = service_faults.FAULTS
    parser = _parser(SERVICES, faults.values())
    parser.add_argument("--only", type=names_of(faults), default=list(faults), help=_BY_COMMA)
    parser.add_argument("--seconds", type=float, default=10.0, help="shortest load of each")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="inject each N times")
    parser.add_argument("--logs", type=Path, help="keep the system's logs of a fault here")
    options = parser.parse_args(arguments)
    trials = [name for name in options.only for _ in range(options.repeat)]
    results: list[ServiceResult] = []
    console.print("Starting the whole system ...")
    with _reported(), system_under_test() as sut:
        for number, name in enumerate(trials, start=1):
            console.print(f"{number} of {len(trials)}, {name}: {faults[name].about} ...", end=" ")
            experiment = service_experiments.run_experiment(sut, faults[name], options.seconds)
            result = asyncio.run(experiment)
            results.append(result)
            console.print(f"{_times(result)} ...", end=" ")
            _print_verdict("noticed", result.complaints())
            if options.logs and result.complaints():
                sut.keep_logs(options.logs / f"{number}-{name}")
            if math.isinf(result.whole_s):
                sut.served.clear()  # the next experiment deploys
    if results:
        title = "longest time without an answer of a service, in seconds"
        console.print(_table(title, [_service_row(each) for each in results]))
        if options.repeat > 1:
            title = "seconds from the fault"
            console.print(_table(title, list(_spread(results))))
    complained = any(each.complaints() for each in results)
    return 1 if complained or len(results) != len(trials) else 0


def _times(result: ServiceResult) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(result.injected_at))
    return f"{clock}, answered after {result.back_s:.1f} s, whole after {result.whole_s:.1f} s"


def _spread(results: Sequence[ServiceResult]) -> Iterator[dict[str, str]]:
    """Yield a row for each fault and time, over all its trials."""
    for fault in dict.fromkeys(each.fault.name for each in results):
        trials = [each for each in results if each.fault.name == fault]
        for what in ("back_s", "whole_s"):
            times = sorted(getattr(each, what) for each in trials)
            p95 = times[math.ceil(0.95 * len(times)) - 1]
            figures = {"median": statistics.median(times), "p95": p95, "max": times[-1]}
            yield {"fault": fault, "until": _UNTIL[what], "trials": f"{len(times)}"} | {
                name: f"{value:.1f}" for name, value in figures.items()
            }


def run_states(arguments: Sequence[str]) -> int:
    faults = state_faults.FAULTS
    parser = _parser(STATES, faults.values())
    parser.add_argument("--faults", type=names_of(faults), default=list(faults), help=_BY_COMMA)
    parser.add_argument(
        "--modes", type=names_of(MODES), default=list(MODES), help=f"by comma: {', '.join(MODES)}"
    )
    parser.add_argument("--seconds", type=float, default=12.0, help="shortest load of each")
    options = parser.parse_args(arguments)
    results: list[StateResult] = []
    with _reported(), _system() as (system, redis):
        for mode in options.modes:
            app = ApplicationUnderTest(system, mode, {"durability": mode}, redis)
            for name in options.faults:
                console.print(f"{name}, {mode}: {faults[name].about} ...", end=" ")
                experiment = state_experiments.run_experiment(
                    app, faults[name], mode, options.seconds
                )
                results.append(asyncio.run(experiment))
                _print_verdict("broken", results[-1].broken())
                if results[-1].broken():
                    for finding in results[-1].verdict.findings[:3]:
                        console.print(f"      {finding}", markup=False, style="dim")
    if results:
        title = "steps lost, doubled, revived; away: longest time without an answer for a run"
        console.print(_table(title, [_state_row(each) for each in results]))
    broken = any(each.broken() for each in results)
    return 1 if broken or len(results) != len(options.faults) * len(options.modes) else 0


_BY_COMMA = "by comma; all by default"


def _parser(
    description: str, faults: Iterable[ServiceFault | StateFault]
) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog="make chaos",
        description=description,
        epilog="faults:\n" + "\n".join(f"  {each.name:14} {each.about}" for each in faults),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Report an error or an interruption; what was measured before is kept."""
    try:
        yield
    except (RuntimeError, httpx.HTTPError) as error:
        console.print(f"Stopped: {error}", style="red", markup=False)
    except KeyboardInterrupt:
        console.print("\nInterrupted; everything is stopped.", style="yellow")


@contextlib.contextmanager
def _system() -> Iterator[tuple[System, RedisServer]]:
    console.print("Starting Ray and Redis ...")
    with tempfile.TemporaryDirectory(prefix="gwc-", dir="/tmp") as folder:
        redis = RedisServer(Path(folder)).start()
        try:
            with running_system(env={"STORE_URL": redis.url, **QUICK}) as system:
                yield system, redis
        finally:
            redis.stop()


def _print_verdict(otherwise: str, complaints: Sequence[str]) -> None:
    console.print(f"[red]{otherwise}[/red]" if complaints else "[green]kept[/green]")
    for sentence in complaints:
        console.print(f"    {sentence}", markup=False)


def _service_row(result: ServiceResult) -> dict[str, str]:
    others = [f"{n} x {kind}" for kind, n in result.kinds.items() if kind != ANSWERED]
    return {
        "fault": result.fault.about,
        **{name: f"{seconds:.1f}" for name, seconds in result.away_s.items()},
        "slowest": f"{result.slowest_s:.1f}",
        "lost": f"{result.lost}",
        "missing": f"{result.missing}",
        "outcomes": ", ".join([f"{result.kinds[ANSWERED]} answered", *others]),
    }


def _state_row(result: StateResult) -> dict[str, str]:
    history, verdict = result.history, result.verdict
    return {
        "fault": result.fault.name,
        "mode": result.mode,
        "requests": f"{len(history.predictions)}",
        **{outcome.value: f"{history.count(outcome)}" for outcome in Outcome},
        "away s": f"{result.away_s:.2f}",
        **{harm.value: f"{verdict.steps(harm)}" for harm in Harm if harm is not Harm.WRONG},
        "promise": "[red]broken[/red]" if result.broken() else "[green]kept[/green]",
    }


def _table(title: str, rows: Sequence[Mapping[str, str]]) -> Table:
    """Lay out rows with the same columns: words to the left, figures to the right."""
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in rows[0]:
        table.add_column(column, justify="left" if column in _WORDS else "right")
    for row in rows:
        table.add_row(*row.values())
    return table


if __name__ == "__main__":
    exit_on_sigterm()  # otherwise the systems that it has started would stay
    sys.exit(main(sys.argv[1:]))
