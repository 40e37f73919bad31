"""What is changed in a system counts as changed only when that is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from load_tests.chaos.services import changes
from load_tests.chaos.services.events import EVENTS
from load_tests.chaos.services.house import Mishap, _runs


class Replica:
    def __init__(self) -> None:
        self.ended = False

    def is_running(self) -> bool:
        return not self.ended


class FakeHouse:
    """Does with each deploy what it is told: replace the replicas, refuse, or nothing at all."""

    def __init__(self, code: Path, does: str) -> None:
        self.code = code
        self._does = does
        self._replicas = [Replica(), Replica()]
        (code / changes.ONE).parent.mkdir(parents=True)
        (code / changes.ONE).write_text("good\n")

    def append(self, file: Path, line: str) -> None:
        with (self.code / file).open("a") as code:
            code.write(line)

    def deploy(self, config: Any) -> None:
        if "replace" in self._does:
            for replica in self._replicas:
                replica.ended = True
            self._replicas = [Replica(), Replica()]
        if "refuse" in self._does:
            raise Mishap("deploy: it does not run")

    def replicas(self, application: str) -> list[Replica]:
        return self._replicas

    def wait_until_whole(self) -> bool:
        return True


def happen(event: str, house: FakeHouse) -> None:
    EVENTS[event].happen(house)  # type: ignore[arg-type]


def test_new_code_has_to_replace_the_old(tmp_path: Path) -> None:
    happen("code", FakeHouse(tmp_path / "good", "replace"))
    with pytest.raises(Mishap, match="the old version runs on"):
        happen("code", FakeHouse(tmp_path / "bad", ""))
    with pytest.raises(Mishap, match="it does not run"):
        happen("code", FakeHouse(tmp_path / "refused", "refuse"))


@pytest.mark.parametrize("event", ["no-import", "no-start", "misfit"])
def test_what_is_broken_has_to_be_refused_and_leaves_the_code_and_who_serves(
    event: str, tmp_path: Path
) -> None:
    house = FakeHouse(tmp_path / "good", "refuse")
    happen(event, house)
    assert (house.code / changes.ONE).read_text() == "good\n"
    with pytest.raises(Mishap, match="it was not refused"):
        happen(event, FakeHouse(tmp_path / "bad", ""))
    with pytest.raises(Mishap, match="the old version has ended"):
        happen(event, FakeHouse(tmp_path / "worse", "replace, refuse"))


@pytest.mark.parametrize(
    ("status", "replicas", "runs"),
    [
        ("RUNNING", ["RUNNING", "RUNNING"], True),
        ("RUNNING", ["RUNNING", "STOPPING"], False),
        ("DEPLOYING", ["RUNNING"], False),
    ],
)
def test_a_system_is_whole_when_no_replica_starts_or_ends(
    status: str, replicas: list[str], runs: bool
) -> None:
    deployment = {"replicas": [{"state": state} for state in replicas]}
    assert _runs({"status": status, "deployments": {"Inference": deployment}}) is runs
