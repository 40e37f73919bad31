"""Kills, pauses and changes parts of a system of its own under load, and counts what it costs.

Over HTTP alone: answered steps that were lost, steps that were made twice, states that came back
after a reset. The exit code is 1 when the promise of docs/hidden-states.md is broken.

    make chaos ARGS="states --faults replica,actor --modes actor --seconds 12"
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from load_tests.chaos.faults import FAULTS
from load_tests.chaos.history import Outcome
from load_tests.chaos.lineage import Harm
from load_tests.chaos.loads import LOADS
from load_tests.chaos.names import names_of
from load_tests.chaos.stage import MODES, Stage
from load_tests.chaos.trial import Result, run_trial
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.shipped import ROOT
from load_tests.harness.system import System, free_port_base, make_instance
from serve_app.processes.ports import Ports

console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 120)

_NAMES = ("fault", "mode")
_FIGURES = (
    *(*_NAMES, "requests", "answered", "refused", "unknown", "away_s"),
    *("lost", "lost_ms", "doubled", "revived"),
)


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.list:
        _print_faults()
        return 0
    results: list[Result] = []
    try:
        with _system(options.port_base) as (system, redis):
            for result in _trials(options, system, redis):
                results.append(result)
    except KeyboardInterrupt:
        console.print("\nInterrupted; everything is stopped.", style="yellow")
    if results:
        console.print(_table(results))
    if options.json:
        options.json.write_text(json.dumps([_row(each) for each in results], indent=1))
    complete = len(results) == len(options.faults) * len(options.modes)
    return 0 if complete and not any(each.broken() for each in results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--faults", type=names_of(FAULTS), default=list(FAULTS), help="by comma; all by default"
    )
    parser.add_argument(
        "--modes", type=names_of(MODES), default=list(MODES), help=f"by comma: {', '.join(MODES)}"
    )
    parser.add_argument(
        "--load",
        choices=LOADS,
        default="mixed",
        help="mixed: states that are stepped, left alone, reset; repeated: requests with"
        " idempotency keys, a fifth of them repeated",
    )
    parser.add_argument("--seconds", type=float, default=12.0, help="shortest load of a trial")
    parser.add_argument("--port-base", type=int, help="first of the system's 500 ports")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--list", action="store_true", help="list the faults")
    return parser


@contextlib.contextmanager
def _system(port_base: int | None) -> Iterator[tuple[System, RedisServer]]:
    temp_dir = Path(tempfile.mkdtemp(prefix="gwc-", dir="/tmp"))
    redis = RedisServer(temp_dir / "redis")
    ports = Ports.from_base(port_base or free_port_base())
    env = {"PYTHONPATH": str(ROOT), "STORE_URL": redis.url}
    instance = make_instance(temp_dir / "data", temp_dir, ports, **env)
    system = System(instance)
    try:
        redis.start()
        console.print("Starting Ray and Redis ...")
        instance.start()
        yield system, redis
    finally:
        system.kill_everything()  # nothing here is worth the time of an orderly end
        instance.stop()
        redis.stop()
        shutil.rmtree(temp_dir, ignore_errors=True)


def _trials(options: argparse.Namespace, system: System, redis: RedisServer) -> Iterator[Result]:
    for mode in options.modes:
        args = {**MODES[mode], "restore_after_restart": True}
        for name in options.faults:
            console.print(f"{name}, {mode}: {FAULTS[name].about} ...", end=" ")
            stage = Stage(system, mode, args, redis)
            load = LOADS[options.load]
            result = asyncio.run(run_trial(stage, FAULTS[name], mode, options.seconds, load))
            _print_verdict(result)
            yield result


def _print_verdict(result: Result) -> None:
    if not (complaints := result.broken()):
        console.print("[green]kept[/green]")
        return
    console.print("[red]broken[/red]")
    for sentence in complaints:
        console.print(f"    {sentence}", markup=False)
    for finding in result.verdict.findings[:3]:
        console.print(f"      {finding}", markup=False, style="dim")


def _print_faults() -> None:
    table = Table("fault", "what happens")
    for fault in FAULTS.values():
        table.add_row(fault.name, fault.about)
    console.print(table)


def _row(result: Result) -> dict[str, Any]:
    history, verdict = result.history, result.verdict
    return {
        "fault": result.fault.name,
        "mode": result.mode,
        "requests": len(history.asked),
        **{outcome.value: history.count(outcome) for outcome in Outcome},
        "away_s": round(history.away_s(), 2),
        **{harm.value: verdict.steps(harm) for harm in Harm},
        "lost_ms": round(1e3 * verdict.lost_s, 1),
        "silent": result.silent,
        "broken": result.broken(),
    }


def _table(results: list[Result]) -> Table:
    title = "steps lost, doubled, revived; away: time in which nobody was answered"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in _FIGURES:
        table.add_column(column.replace("_", " "), justify="left" if column in _NAMES else "right")
    table.add_column("promise")
    for row in map(_row, results):
        figures = (row[name] for name in _FIGURES)
        verdict = "[red]broken[/red]" if row["broken"] else "[green]kept[/green]"
        table.add_row(*map(str, figures), verdict)
    return table
