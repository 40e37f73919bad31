"""A plain locustfile: ``locust -f load_tests/locustfile.py``, with all of Locust's options.

``LOAD_SCENARIO`` selects users, their number over time, and the length; ``--users`` and
``--run-time`` change the last two. The run ends with 1 if a gate of the scenario was missed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gevent
from locust import LoadTestShape, events
from locust.runners import WorkerRunner
from locust.stats import StatsEntry

from load_tests.scenarios import users
from load_tests.scenarios.gates import ALL, MemoryWatch, Row, judge, read_gates
from load_tests.scenarios.scenarios import DEFAULT, SCENARIOS, users_at
from load_tests.scenarios.target import LoadTestError, Target, find_target

GATES = Path(__file__).with_name("scenarios") / "gates.toml"
SAMPLE_S = 5.0

NAME = os.environ.get("LOAD_SCENARIO") or DEFAULT
if NAME not in SCENARIOS:
    raise SystemExit(f"LOAD_SCENARIO: {NAME!r} is not one of {', '.join(SCENARIOS)}.")
scenario = SCENARIOS[NAME]
for name in scenario.user_classes:  # Locust runs the user classes of this module
    globals()[name] = getattr(users, name)


class Profile(LoadTestShape):
    """Follows the profile of the scenario, stretched to ``--run-time`` and ``--users``."""

    use_common_options = True

    def tick(self) -> tuple[int, float] | None:
        options = self.runner.environment.parsed_options
        share = self.get_run_time() / options.run_time
        n_users = users_at(scenario.profile, options.num_users, share)
        # all at once, because Locust makes no further tick while it starts users
        return None if n_users is None else (n_users, options.num_users)


@events.init_command_line_parser.add_listener
def add_options(parser: Any, **_: object) -> None:
    """Set the scenario's defaults, which Locust's options and page can change."""
    parser.set_defaults(num_users=scenario.users, run_time=round(scenario.minutes * 60))
    parser.add_argument("--port-base", type=int, help="of the system, as for `make up`")
    parser.add_argument("--gates", type=Path, default=GATES, help="bounds by scenario and route")


@events.init.add_listener
def prepare(environment: Any, **_: object) -> None:
    """Find the system, check that it answers, and judge the run when it ends."""
    options = environment.parsed_options
    try:
        target = environment.target = find_target(options.port_base, options.host)
        if isinstance(environment.runner, WorkerRunner):
            return
        target.token()
        _judge_at_the_end(environment, target)
    except LoadTestError as error:
        raise SystemExit(str(error)) from error


def _judge_at_the_end(environment: Any, target: Target) -> None:
    gates = read_gates(environment.parsed_options.gates)[NAME]
    watch = MemoryWatch(target.processes) if gates.growth_mb else None
    if watch:
        gevent.spawn(_sample, watch)

    def judge_all(**_: object) -> None:
        rows = {
            f"{method} {path}": _row(e) for (path, method), e in environment.stats.entries.items()
        }
        verdicts = [*judge(gates, rows | {ALL: _row(environment.stats.total)})]
        if watch and gates.growth_mb:
            verdicts += watch.judge(gates.growth_mb)
        print("\n".join(map(str, verdicts)))  # noqa: T201
        environment.process_exit_code = 0 if all(each.is_met for each in verdicts) else 1

    if environment.web_ui is None:  # a run on Locust's page has no one length to be judged by
        environment.events.quitting.add_listener(judge_all)


def _sample(watch: MemoryWatch) -> None:
    while True:
        # in a real thread, because users must not wait for the files of /proc
        gevent.get_hub().threadpool.apply(watch.sample)
        gevent.sleep(SAMPLE_S)


def _row(entry: StatsEntry) -> Row:
    p95, p99 = (entry.get_response_time_percentile(share) for share in (0.95, 0.99))
    return Row(entry.num_requests, entry.fail_ratio, p95, p99)
