"""``greenwave lab shadow``: recommendations beside an existing controller, and what they show."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from greenwave.client import Client, GreenwaveError
from lab.processes import RunFolder
from lab.shadow.events import events_of, write_events
from lab.shadow.findings import Findings, examine
from lab.shadow.log import GAP_S, LogWriter, read_log
from lab.shadow.records import RecordForm
from lab.shadow.report import as_text, sections
from lab.sim.options import add_rules, add_scenario, scenario_of, scenario_with
from lab.sim.scenario import DECISION_S, RouteFiles
from models.atomic_write import atomic_write
from models.networks.network import Network, read_network
from models.signals.safety import Limits
from models.signals.states import MIN_GREEN_S
from serve_app.cli.arguments import add_action, add_json
from serve_app.cli.demo import check as check_demo
from serve_app.cli.hints import require
from serve_app.cli.terminal import notes, write_json
from serve_app.configured_network import configured_network
from serve_app.demo.connect import addresses_of, make_client
from serve_app.errors import CommandError
from serve_app.shadow import Lines, Recorder

if TYPE_CHECKING:
    from lab.shadow.estimate import Saved

MAX_BYTES = 4 * 2**30


def add_shadow(shadow: argparse.ArgumentParser) -> None:
    actions = shadow.add_subparsers(required=True, metavar="ACTION")
    _add_record(actions)
    _add_report(actions)
    _add_events(actions)
    _add_simulate(actions)


def _add_log(action: argparse.ArgumentParser, help: str) -> None:
    action.add_argument("log", type=Path, help=help)
    network = "network file of the city (default: that of NETWORK_PATH, or the shipped one)"
    action.add_argument("--network", type=Path, help=network)


def _add_record(actions: Any) -> None:
    help = "ask the gateway for recommendations, and log them beside a controller's records"
    action = add_action(actions, "record", _record, help)
    _add_log(action, "log to append to; a recording that was stopped continues")
    action.add_argument("--url", help="of the gateway (default: that of 'greenwave up')")
    token = "file with the token of a service account (default: the user of 'greenwave up')"
    action.add_argument("--token-file", type=Path, help=token)
    records = "records, JSON lines or .csv (default: JSON lines on standard input)"
    action.add_argument("--records", type=Path, metavar="FILE", help=records)
    counts = "observations have vehicles in place of shares of the lanes"
    action.add_argument("--vehicle-counts", action="store_true", help=counts)
    gap = f"longest silence within a segment, in seconds (default {GAP_S:g})"
    action.add_argument("--gap", type=float, default=GAP_S, metavar="S", help=gap)
    size = f"largest size of the log (default {MAX_BYTES})"
    action.add_argument("--max-bytes", type=int, default=MAX_BYTES, metavar="N", help=size)


def _add_report(actions: Any) -> None:
    help = "report agreement, refusals of the safety layer, detector health and delay saved"
    action = add_action(actions, "report", _report, help, has_instance=False)
    _add_log(action, "log of 'greenwave lab shadow record'")
    add_json(action)
    red = "longest red of a phase that the safety layer allows (default 120)"
    action.add_argument("--max-red", type=float, default=120.0, metavar="S", help=red)
    net = "SUMO network: estimate the delay saved, by simulations with the log's counts"
    action.add_argument("--net", type=Path, help=net)
    action.add_argument("--policy", type=Path, help="agent.th, for the estimate")
    action.add_argument("--seeds", type=int, default=5, metavar="N", help="of it (default 5)")
    safety = "simulate the policy behind the safety layer"
    action.add_argument("--safety", action="store_true", help=safety)
    add_rules(action)
    action.set_defaults(decision=DECISION_S)


def _add_events(actions: Any) -> None:
    help = "export the signals' events as high-resolution controller logs, which atspm reads"
    action = add_action(actions, "events", _events, help, has_instance=False)
    _add_log(action, "log of 'greenwave lab shadow record', or a file of records")
    output = "for events.csv, detectors.csv and phases.csv"
    action.add_argument("--output", type=Path, required=True, metavar="FOLDER", help=output)
    green = "longest green of an actuated controller: it ends by max-out, a shorter one by gap-out"
    action.add_argument(
        "--max-green", type=float, metavar="S", help=f"{green} (default: force-off)"
    )
    zone = "of the times, which have none in the files (default UTC)"
    action.add_argument("--time-zone", default="UTC", metavar="ZONE", help=zone)


def _add_simulate(actions: Any) -> None:
    help = "make records by a simulation, to try the other actions without a street"
    action = actions.add_parser("simulate", help=help, description=help)
    add_scenario(action, required=False)
    action.add_argument("--seconds", type=int, help="length (default 3600, or a city's --end)")
    controller = "of greenwave lab evaluate (default: fixed time, the net's programs)"
    action.add_argument("--controller", default="fixed time", metavar="NAME", help=controller)
    action.add_argument("--seed", type=int, default=1, metavar="S", help="(default 1)")
    action.add_argument("--output", type=Path, required=True, metavar="FILE", help="JSON lines")
    action.set_defaults(run=partial(_simulate, action))


def _network(options: argparse.Namespace) -> Network:
    if options.network is None:
        return configured_network(None, whole=True)
    return read_network(options.network)


def _record(options: argparse.Namespace) -> None:
    if not options.gap > 0 or options.max_bytes < 1:
        raise CommandError("--gap and --max-bytes must be above 0.")
    network = _network(options)
    with (
        _records(options, network) as lines,
        _client(options) as client,
        closing(LogWriter(options.log, options.max_bytes)) as log,
    ):
        source = str(options.records.resolve()) if options.records else ""
        recorder = Recorder(network, log, client, source, notes.print, options.gap)
        try:
            recorder.record(lines)
        finally:
            done = recorder.recorded
            notes.print(
                f"{options.log}: {done.records} records in {done.segments} segments,"
                f" {done.recommended} recommendations for {done.decisions} decisions;"
                f" {done.malformed} lines were skipped."
            )
    if done.malformed and not done.records:
        raise CommandError("No line was a record.")


@contextmanager
def _records(options: argparse.Namespace, network: Network) -> Iterator[Lines]:
    form = RecordForm(network, options.vehicle_counts)
    if options.records is None:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")
        yield form.read_lines(sys.stdin)
        return
    with options.records.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        text: TextIO = file
        is_csv = options.records.suffix.lower() == ".csv"
        yield form.read_csv(text) if is_csv else form.read_lines(text)


def _client(options: argparse.Namespace) -> Client:
    try:
        at = addresses_of(options.port_base, options.url)
        if options.token_file is not None:
            return Client(at, token=options.token_file.read_text(encoding="ascii").strip())
        return make_client(options, at)
    except (GreenwaveError, UnicodeDecodeError) as error:
        raise CommandError(f"The gateway cannot be called: {error}") from error


def _report(options: argparse.Namespace) -> None:
    network = _network(options)
    if (options.net is None) != (options.policy is None):
        raise CommandError("The estimate needs both --net and --policy.")
    if options.seeds < 1:
        raise CommandError("--seeds must be at least 1.")
    min_green_s = MIN_GREEN_S if options.min_green is None else options.min_green
    limits = Limits(min_green_s, options.max_red, options.decision, cyclic=options.cyclic)
    findings = examine(read_log(options.log, network), network, limits)
    if not any(span.records for span in findings.spans):
        raise CommandError(f"{options.log} has no records.")
    saved = None if options.net is None else _estimate(options, network, findings)
    parts = sections(findings, saved)
    if options.json:
        write_json([each._asdict() for each in parts])
    else:
        sys.stdout.write(as_text(parts))


def _estimate(options: argparse.Namespace, network: Network, findings: Findings) -> Saved:
    require("libsumo", "SUMO")
    from lab.shadow.estimate import estimate_saved

    assert network.file is not None
    with RunFolder() as folder:
        scenario = scenario_with(options, network.file, options.net, RouteFiles(()), 0, 1)
        scenario = replace(scenario, guarded=options.safety)
        return estimate_saved(findings, scenario, options.policy, options.seeds, Path(folder))


def _events(options: argparse.Namespace) -> None:
    network = _network(options)
    try:
        zone = ZoneInfo(options.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise CommandError(f"--time-zone: there is no zone {options.time_zone}.") from None
    events = events_of(read_log(options.log, network), network, options.max_green)
    files = write_events(events, network, options.output, zone)
    notes.print(
        f"{len(events)} events are in {files[0]}; {files[1].name} and {files[2].name} explain it."
    )


def _simulate(command: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    check_demo(command, options)
    require("libsumo", "SUMO")
    from lab.evaluate.checks import check_signals
    from lab.shadow.simulated import simulate
    from lab.sim.controllers import CONTROLS
    from serve_app.demo.stage import stage_of

    if options.controller not in CONTROLS:
        raise CommandError(f"--controller must be one of: {', '.join(CONTROLS)}.")
    scenario = stage_of(options).scenario if options.network is None else scenario_of(options)
    check_signals(scenario)
    control = CONTROLS[options.controller](scenario)
    records = simulate(scenario, options.seed, control)
    with atomic_write(options.output) as file:
        file.writelines(
            each.model_dump_json(exclude_none=True).encode() + b"\n" for each in records
        )
    notes.print(f"{options.output} has {len(records)} records.")
