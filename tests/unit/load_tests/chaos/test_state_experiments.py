"""What a fault may cost in which mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from load_tests.chaos.checker import Finding, Harm, Verdict
from load_tests.chaos.history import History, Key, Prediction
from load_tests.chaos.state_experiments import StateResult, run_experiment
from load_tests.chaos.state_faults import FAULTS, MODES, ApplicationUnderTest
from load_tests.harness.system import System
from serve_app.errors import DeployError
from serve_app.processes.instance import Instance

ANSWER = Prediction(Key("run", "junction"), 0.0, 1.0)


def result(fault: str, mode: str, *findings: Finding, silent: int = 0) -> StateResult:
    return StateResult(FAULTS[fault], mode, History(), Verdict(findings), silent)


def lost(seconds: float) -> Finding:
    return Finding(Harm.LOST, ANSWER, seconds=seconds)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("mode", list(MODES))
def test_every_promise_is_kept_when_nothing_is_lost(fault: str, mode: str) -> None:
    assert result(fault, mode).broken() == []


@pytest.mark.parametrize(
    ("fault", "mode", "seconds", "kept"),
    [
        ("replica", "memory", 0.009, True),
        ("replica", "memory", 0.011, False),
        ("replica", "actor", 0.001, False),
        ("replica", "store_async", 0.009, True),
        ("replica", "store", 0.001, False),
        ("actor", "memory", 0.001, False),
        ("replica+actor", "actor", 1.0, True),
        ("replica+actor", "store", 0.001, False),
        ("none", "memory", float("inf"), False),
        ("scale", "memory", 0.001, False),
        ("ray", "memory", 1.0, True),
        ("ray", "actor", 1.0, True),
        ("ray", "store_async", 0.011, False),
        ("ray", "store", 0.001, False),
    ],
)
def test_a_loss_is_judged_by_fault_mode_and_age(
    fault: str, mode: str, seconds: float, kept: bool
) -> None:
    assert bool(result(fault, mode, lost(seconds)).broken()) is not kept


def test_slack_is_for_what_may_be_lost_at_all() -> None:
    assert result("replica", "memory", lost(0.2)).broken(slack_s=0.2) == []
    assert result("replica", "memory", lost(0.3)).broken(slack_s=0.2) != []
    assert result("replica", "actor", lost(0.001)).broken(slack_s=0.2) != []


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("harm", [Harm.DOUBLED, Harm.REVIVED, Harm.WRONG])
def test_no_step_may_be_doubled_or_revived_or_wrong(fault: str, harm: Harm) -> None:
    assert result(fault, "memory", Finding(harm, ANSWER)).broken() == [f"1 steps were {harm.value}"]


def test_a_state_that_is_never_answered_for_again_breaks_the_promise() -> None:
    assert result("replica", "memory", silent=2).broken() != []


async def test_a_trial_that_cannot_begin_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    app = ApplicationUnderTest(System(Instance(Path("/nowhere"))), "app")

    def deploy(self: ApplicationUnderTest, replicas: int) -> None:
        raise DeployError("it does not run")

    monkeypatch.setattr(ApplicationUnderTest, "deploy", deploy)
    (complaint,) = (await run_experiment(app, FAULTS["none"], "memory", 0.0)).broken()
    assert "it does not run" in complaint
