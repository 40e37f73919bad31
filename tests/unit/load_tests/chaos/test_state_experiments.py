"""Which promises a fault must keep."""

from pathlib import Path

import pytest

from load_tests.chaos.checker import Finding, Harm, Verdict
from load_tests.chaos.history import History, Key, Prediction
from load_tests.chaos.state_experiments import DURABLE_S, StateResult, run_experiment
from load_tests.chaos.state_faults import FAULTS, ApplicationUnderTest
from load_tests.harness.system import System
from serve_app.errors import DeployError
from serve_app.processes.instance import Instance

ANSWER = Prediction(Key("run", "junction"), 0.0, 1.0)


def result(
    fault: str, mode: str, *findings: Finding, away_s: float = 0.0, silent: int = 0
) -> StateResult:
    return StateResult(FAULTS[fault], mode, History(), Verdict(findings), away_s, silent)


@pytest.mark.parametrize("harm", Harm)
def test_a_harmed_step_is_named(harm: Harm) -> None:
    broken = result("replica", "memory", Finding(harm, ANSWER)).complaints(slack_s=9.0)
    assert broken == [f"1 steps were {harm.value}"]


def test_a_run_may_wait_as_long_as_promised_and_longer_for_the_store() -> None:
    longest_s = FAULTS["replica"].max_away_s
    assert result("replica", "memory", away_s=longest_s + 0.3).complaints() != []
    assert result("replica", "memory", away_s=longest_s + 0.3).complaints(slack_s=0.4) == []
    assert result("replica", "durable", away_s=longest_s + 0.3).complaints() == []
    assert result("replica", "durable", away_s=longest_s + DURABLE_S + 0.3).complaints() != []


def test_a_state_that_is_never_answered_for_again_breaks_the_promise() -> None:
    assert result("replica", "memory", silent=2).complaints() != []


async def test_a_trial_that_cannot_begin_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    app = ApplicationUnderTest(System(Instance(Path("/nowhere"))), "app")

    def deploy(self: ApplicationUnderTest, replicas: int) -> None:
        raise DeployError("it does not run")

    monkeypatch.setattr(ApplicationUnderTest, "deploy", deploy)
    (complaint,) = (await run_experiment(app, FAULTS["none"], "memory", 0.0)).complaints()
    assert "it does not run" in complaint
