"""Virtual environments are made once, and anew when their packages change."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from load_tests.bench.comparison.environment import Environment, EnvironmentMissingError, versions


class Runs:
    """Stands for subprocesses: keeps the commands, and makes the folder of an environment."""

    def __init__(self, failing: str = "", said: str = "") -> None:
        self.commands: list[Sequence[str]] = []
        self._failing, self._said = failing, said

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        Path(self.commands[0][-1]).mkdir(exist_ok=True)
        failed = bool(self._failing) and self._failing in command
        return subprocess.CompletedProcess(command, int(failed), "", self._said)


@pytest.fixture
def environment(tmp_path):
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("six==1.16.0\n")
    return Environment(requirements, tmp_path / "env")


def test_it_is_made_of_the_file_and_ready_from_then_on(environment):
    assert not environment.is_ready
    runs = Runs()
    environment.make(runs)
    assert environment.is_ready
    venv, pip = runs.commands
    assert venv[:3] == [sys.executable, "-m", "venv"]
    assert pip[0] == str(environment.folder / "bin" / "python")
    assert pip[-2:] == ["-r", str(environment.requirements)]


def test_other_requirements_make_it_anew(environment):
    environment.make(Runs())
    environment.requirements.write_text("six==1.17.0\n")
    assert not environment.is_ready


def test_without_a_network_a_sentence_says_so_and_nothing_is_ready(environment):
    runs = Runs(failing="pip", said="WARNING: retrying\nERROR: No matching distribution\n")
    with pytest.raises(EnvironmentMissingError, match=r"package index: ERROR: No matching"):
        environment.make(runs)
    assert not environment.is_ready


def test_versions_are_those_of_the_environment():
    assert versions(Path(sys.executable), ["pytest"]) == {"pytest": pytest.__version__}


def test_the_version_of_what_is_not_installed_is_refused():
    with pytest.raises(EnvironmentMissingError, match="no-such-package"):
        versions(Path(sys.executable), ["no-such-package"])
