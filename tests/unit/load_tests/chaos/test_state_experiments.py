"""Which promises a fault must keep."""

from pathlib import Path
from typing import Any

import pytest

from load_tests.chaos.checker import Finding, Harm, Verdict
from load_tests.chaos.history import History, Key, Prediction
from load_tests.chaos.state_experiments import DURABLE_S, judge, run_experiment
from load_tests.chaos.state_faults import FAULTS, ApplicationUnderTest
from load_tests.harness.system import System
from serve_app.errors import DeployError
from serve_app.processes.instance import Instance

ANSWER = Prediction(Key("run", "junction"), 0.0, 1.0)


def complaints(mode: str = "memory", slack_s: float = 0.0, **seen: Any) -> list[str]:
    verdict = Verdict(tuple(seen.pop("findings", ())))
    return judge(FAULTS["replica"], mode, History(), verdict, **seen).complaints(slack_s)


@pytest.mark.parametrize("harm", Harm)
def test_a_harmed_step_is_named(harm: Harm) -> None:
    assert complaints(findings=[Finding(harm, ANSWER)]) == [f"1 steps were {harm.value}"]


def test_a_run_may_wait_as_long_as_promised_and_longer_for_the_store() -> None:
    late_s = FAULTS["replica"].max_away_s + 0.3
    assert complaints(away_s=late_s)
    assert not complaints(away_s=late_s, slack_s=0.4)
    assert not complaints("durable", away_s=late_s)
    assert complaints("durable", away_s=late_s + DURABLE_S)


def test_a_state_that_is_never_answered_for_again_breaks_the_promise() -> None:
    assert complaints(silent=2)


async def test_a_trial_that_cannot_begin_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    app = ApplicationUnderTest(System(Instance(Path("/nowhere"))), "app")

    def deploy(self: ApplicationUnderTest, replicas: int) -> None:
        raise DeployError("it does not run")

    monkeypatch.setattr(ApplicationUnderTest, "deploy", deploy)
    (complaint,) = (await run_experiment(app, FAULTS["none"], "memory", 0.0)).complaints()
    assert "it does not run" in complaint
