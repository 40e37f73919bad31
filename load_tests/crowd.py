"""A crowd that wants more than the replicas carry, made by wrk.

Users of Locust cannot be that crowd: on the machine that serves, too, they would be overloaded
before the service is, and their times be their own.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

from locust import events
from locust.runners import WorkerRunner

from load_tests.harness.wrk import HERE

CONNECTIONS = 256


class Crowd:
    """Asks for single predictions over many connections, without pause, while a test runs."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def come(self, environment: Any, **_: object) -> None:
        """Start, unless this is a worker: its master has a crowd."""
        if isinstance(environment.runner, WorkerRunner):
            return
        wrk = shutil.which("wrk")
        if wrk is None:
            environment.process_exit_code = 1
            environment.runner.quit()
            raise RuntimeError("wrk is needed for this scenario; on Debian: apt-get install wrk")
        options = environment.parsed_options
        script = str(HERE / "scripts" / "predict_for_runs.lua")
        command = [wrk, "-t1", f"-c{options.connections}", f"-d{options.run_time}s", "-s", script]
        self._process = subprocess.Popen(
            [*command, f"{environment.host}/predict_action"],
            env={"LUA_PATH": f"{HERE}/scripts/?.lua"},
            stdout=subprocess.DEVNULL,
        )

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
