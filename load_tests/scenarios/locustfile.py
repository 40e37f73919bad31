"""The locustfile of every scenario; ``LOAD_SCENARIO`` in the environment selects one.

LOAD_SCENARIO=records locust -f load_tests/scenarios/locustfile.py
"""

from __future__ import annotations

import logging
import os
import subprocess
from typing import Any

from locust import LoadTestShape, events
from locust.runners import WorkerRunner

from load_tests.harness.wrk import WrkError, wrk_command
from load_tests.scenarios import users
from load_tests.scenarios.scenarios import CONNECTIONS, DEFAULT, SCENARIOS, users_at

logger = logging.getLogger(__name__)

scenario = SCENARIOS[os.environ.get("LOAD_SCENARIO", DEFAULT)]
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
    if scenario.is_flooded:
        parser.add_argument(
            "--connections",
            type=int,
            default=CONNECTIONS,
            env_var="LOAD_CONNECTIONS",
            help="connections of wrk that overload the service",
        )


class Flood:
    """Overloads the inference service with wrk while a test runs.

    Users of Locust cannot do that: on the same machine, Locust would be overloaded before the
    service is, and its times would be its own.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, environment: Any, **_: object) -> None:
        """Start wrk, unless this is a worker, whose master has started it."""
        if isinstance(environment.runner, WorkerRunner):
            return
        options = environment.parsed_options
        url, seconds = f"{environment.host}/predict_action", float(options.run_time)
        try:
            command = wrk_command(url, options.connections, seconds, ("predict", "runs=200"))
        except WrkError:
            environment.process_exit_code = 1
            environment.runner.quit()
            raise
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def stop(self, environment: Any, **_: object) -> None:
        """Stop wrk; the test fails if wrk has failed before."""
        if self._process is not None:
            if code := self._process.poll():
                logger.error("wrk ended with code %d, so nothing overloaded the service", code)
                environment.process_exit_code = 1
            self._process.kill()
            self._process.wait()
            self._process = None


if scenario.is_flooded:
    flood = Flood()
    events.test_start.add_listener(flood.start)
    events.test_stop.add_listener(flood.stop)
