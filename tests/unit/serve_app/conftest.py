"""A cluster that commands, rollouts and the supervisor call, and processes of an instance."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from serve_app.processes.process_tags import INSTANCE_TAG
from tests.support.fake_ray import FakeRay, fake_ray

Process = subprocess.Popen[bytes]
Start = Callable[..., Process]


@pytest.fixture
def ray_api() -> Iterator[FakeRay]:
    with fake_ray() as fake:
        yield fake


@pytest.fixture
def start_process() -> Iterator[Start]:
    """Start a process of the instance in a folder, with further words and variables."""
    started: list[Process] = []

    def start(data_dir: Path, *words: str, **tags: str) -> Process:
        process = subprocess.Popen(
            [sys.executable, "-c", "print('up', flush=True); input()", *words],
            env=os.environ | {INSTANCE_TAG: str(data_dir.resolve()), **tags},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
