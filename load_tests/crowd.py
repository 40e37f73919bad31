"""A crowd that wants more than the replicas carry, made by wrk.

Users of Locust cannot be that crowd: on the machine that serves, too, they would be overloaded
before the service is, and their times be their own.
"""

from __future__ import annotations

import subprocess
from typing import Any

from locust import events
from locust.runners import WorkerRunner

from load_tests.harness.wrk import WrkError, wrk_command

CONNECTIONS = 256


class Crowd:
    """Asks for single predictions over many connections, without pause, while a test runs."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def come(self, environment: Any, **_: object) -> None:
        """Start, unless this is a worker: its master has a crowd."""
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

    def go(self, **_: object) -> None:
        """End, if it has come."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def with_a_crowd() -> None:
    """Let a crowd come and go with each test, of as many connections as an option says."""

    def add_option(parser: Any, **_: object) -> None:
        parser.add_argument(
            "--connections",
            type=int,
            default=CONNECTIONS,
            env_var="LOAD_CONNECTIONS",
            help="of the crowd that overloads the service",
        )

    crowd = Crowd()
    events.init_command_line_parser.add_listener(add_option)
    events.test_start.add_listener(crowd.come)
    events.test_stop.add_listener(crowd.go)
