"""An instance that only commands control, and a client that sends requests all the time."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

from serve_app.processes.installation import edge_of
from serve_app.processes.instance import Instance
from serve_app.processes.supervision.supervisor import Supervisor

BODY = {"junction_id": "300839359", "obs_data": [1, 0, 1, 0.4, 0.2, 0, 0, 0.1]}


@dataclass
class SupervisedInstance:
    """An instance at a port base, with a config that tests may change."""

    instance: Instance
    port_base: int
    config: dict[str, Any]
    folder: Path
    env: dict[str, str]

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of ``greenwave`` on this instance."""
        words = ["-m", "serve_app.cli.main", command, "--port-base", str(self.port_base)]
        return subprocess.run(
            [sys.executable, *words, *arguments],
            env=os.environ | self.env,
            capture_output=True,
            text=True,
            timeout=200,
        )

    def deploy(self, command: str = "deploy", **changes: Any) -> subprocess.CompletedProcess[str]:
        """Deploy the config with these keys of its application changed."""
        config = self.config | {"applications": [self.config["applications"][0] | changes]}
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        return self.run(command, str(path))

    def predict(self, client: httpx.Client) -> int:
        headers = {"X-Simulation-Run": "kept"}
        try:
            return client.post("/predict_action", json=BODY, headers=headers).status_code
        except httpx.HTTPError:
            return 0

    def seconds_away(self, patience_s: float = 90.0) -> float:
        """Return how long it takes until a prediction fails no more; call it after a kill."""
        started = time.monotonic()
        with httpx.Client(base_url=self.instance.base_url, timeout=5) as client:
            while self.predict(client) != 200:
                assert time.monotonic() - started < patience_s
                time.sleep(0.02)
        return time.monotonic() - started

    @contextmanager
    def load(self) -> Iterator[collections.Counter[int]]:
        """Ask all the time; yield the count of each status, 0 for none."""
        statuses: collections.Counter[int] = collections.Counter()
        over = threading.Event()

        def ask() -> None:
            with httpx.Client(base_url=self.instance.base_url, timeout=10) as client:
                while not over.is_set():
                    statuses[self.predict(client)] += 1
                    over.wait(0.01)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield statuses
        finally:
            over.set()
            thread.join()

    def head(self) -> psutil.Process:
        head = self.instance.head()
        assert head
        return head

    def vital(self, name: str) -> psutil.Process:
        (process,) = [child for child in self.head().children() if child.name() == name]
        return process

    def edge(self) -> psutil.Process:
        master = edge_of(self.instance, self.port_base).master()
        assert master
        return master

    def supervisor(self, part: str) -> psutil.Process:
        (process,) = Supervisor(self.instance).running(part)
        return process
