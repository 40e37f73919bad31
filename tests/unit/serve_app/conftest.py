"""A cluster that commands, rollouts and the supervisor call, and processes of an instance."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from serve_app.processes.process_tags import INSTANCE_TAG
from serve_app.settings import Settings
from tests.support.fake_ray import FakeRay, fake_ray

Process = subprocess.Popen[bytes]
Start = Callable[..., Process]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove every setting from the environment, and afterwards what a test has set."""
    for name in Settings.model_fields:
        monkeypatch.setenv(name.upper(), "")
        monkeypatch.delenv(name.upper())


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
