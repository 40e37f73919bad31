"""A fault counts as injected only when its effect is seen."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from load_tests.chaos.faults import FAULTS, ONE, kill
from load_tests.harness.shipped import shipped_config
from load_tests.harness.system_under_test import FaultInjectionError, is_running


class Replica:
    def __init__(self) -> None:
        self.ended = False

    def is_running(self) -> bool:
        return not self.ended


class FakeSystem:
    """Replaces its replicas, refuses or does nothing at each deployment, as it is made to."""

    def __init__(self, code: Path, does: str) -> None:
        self.code, self.served = code, [shipped_config()]
        self._does = does
        self._replicas = [Replica(), Replica()]
        (code / ONE).parent.mkdir(parents=True)
        (code / ONE).write_text("good\n")

    def append(self, file: Path, line: str) -> None:
        with (self.code / file).open("a") as code:
            code.write(line)

    def deploy(self, config: Any) -> None:
        if "replace" in self._does:
            for replica in self._replicas:
                replica.ended = True
            self._replicas = [Replica(), Replica()]
        if "refuse" in self._does:
            raise FaultInjectionError("deploy: it does not run")

    def replicas(self, application: str) -> list[Replica]:
        return self._replicas

    def wait_until_whole(self) -> bool:
        return True


def inject(fault: str, sut: FakeSystem) -> None:
    FAULTS[fault].inject(sut)  # type: ignore[arg-type]


def test_new_code_has_to_replace_the_old(tmp_path: Path) -> None:
    inject("code", FakeSystem(tmp_path / "good", "replace"))
    with pytest.raises(FaultInjectionError, match="The old version still runs"):
        inject("code", FakeSystem(tmp_path / "bad", ""))
    with pytest.raises(FaultInjectionError, match="it does not run"):
        inject("code", FakeSystem(tmp_path / "refused", "refuse"))


@pytest.mark.parametrize("fault", ["no-import", "no-start", "misfit"])
def test_what_is_broken_has_to_be_refused_and_leaves_the_code_and_who_serves(
    fault: str, tmp_path: Path
) -> None:
    sut = FakeSystem(tmp_path / "good", "refuse")
    inject(fault, sut)
    assert (sut.code / ONE).read_text() == "good\n"
    with pytest.raises(FaultInjectionError, match="was not refused"):
        inject(fault, FakeSystem(tmp_path / "bad", ""))
    with pytest.raises(FaultInjectionError, match="The old version has ended"):
        inject(fault, FakeSystem(tmp_path / "worse", "replace, refuse"))


@pytest.mark.parametrize(
    ("status", "replicas", "runs"),
    [
        ("RUNNING", ["RUNNING", "RUNNING"], True),
        ("RUNNING", ["RUNNING"], False),
        ("RUNNING", ["RUNNING", "RUNNING", "STOPPING"], False),
        ("DEPLOYING", ["RUNNING", "RUNNING"], False),
    ],
)
@pytest.mark.parametrize(
    "wanted", [{"num_replicas": 2}, {"autoscaling_config": {"min_replicas": 2}}]
)
def test_an_application_runs_with_all_its_replicas_when_none_starts_or_ends(
    status: str, replicas: list[str], runs: bool, wanted: dict[str, Any]
) -> None:
    deployment = {"replicas": [{"state": state} for state in replicas]}
    found = {"status": status, "deployments": {"Inference": deployment}}
    assert is_running(found, {"deployments": [{"name": "Inference", **wanted}]}) is runs


def test_a_fault_needs_a_process_though_it_may_have_been_killed_already() -> None:
    with pytest.raises(FaultInjectionError, match="no process"):
        kill([])
    with subprocess.Popen(["sleep", "60"]) as child:
        process = psutil.Process(child.pid)
        kill([process])
        assert child.wait(5) == -signal.SIGKILL
        kill([process])
