"""How contenders are started, each when its turn comes and alone."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any

import httpx
import psutil

from load_tests.bench import harness
from load_tests.bench.comparison.processes import end, started_by
from load_tests.bench.loads import Running
from load_tests.harness.shipped import ROOT, Config
from load_tests.harness.wrk import BenchmarkError
from serve_app.settings import Settings

START_TIMEOUT_S = 120.0
PREDICTION = {"junction_id": "300839359", "obs_data": [1, 0, 1, 0.2, 0.0, 0.4, 0.1, 0.0]}


def peer_environment() -> dict[str, str]:
    """Return what every peer finds in its environment: this code, the policy, one thread."""
    weights = str(Settings().mappo_agent_path.resolve())
    return {"PYTHONPATH": str(ROOT), "MAPPO_AGENT_PATH": weights, "OMP_NUM_THREADS": "1"}


@contextlib.contextmanager
def command(words: Sequence[str], port: int, **env: str) -> Iterator[Running]:
    """Run a server that stays in the foreground; the words may name its ``{port}``."""
    with tempfile.TemporaryFile() as log:
        leader = subprocess.Popen(
            [word.format(port=port) for word in words],
            env=os.environ | peer_environment() | env,
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

        def processes() -> list[psutil.Process]:
            if leader.poll() is not None:
                raise BenchmarkError(f"it ended: {_last_line(log)}")
            return started_by(leader.pid)

        try:
            yield Running(f"http://127.0.0.1:{port}", processes)
        finally:
            end(started_by(leader.pid))


@contextlib.contextmanager
def on_serve(port_base: int, application: dict[str, Any], config: Config) -> Iterator[Running]:
    """Start a Ray cluster that serves this application and nothing else."""
    with harness.serving(port_base, [application], config) as (instance, _):
        yield Running(instance.base_url, instance.processes)


def wait_for_prediction(running: Running) -> None:
    """Return when a prediction is answered.

    Raises:
        BenchmarkError: none in time, or the contender has ended.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError):
            answer = httpx.post(f"{running.url}/predict_action", json=PREDICTION, timeout=5)
            if answer.is_success:
                return
        running.processes()
        time.sleep(0.02)
    raise BenchmarkError(f"no prediction was answered within {START_TIMEOUT_S:g} s")


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "without a word"
