"""What a fault may cost in which mode."""

from __future__ import annotations

import pytest

from deployments.stateful.protocol import Key
from load_tests.chaos.faults import FAULTS
from load_tests.chaos.history import Asked, History
from load_tests.chaos.lineage import Finding, Harm, Verdict
from load_tests.chaos.trial import Result

ANSWER = Asked(Key("run", "junction"), 0.0, 1.0)


def result(fault: str, mode: str, *findings: Finding, silent: int = 0) -> Result:
    return Result(FAULTS[fault], mode, History(), Verdict(findings), silent)


def lost(seconds: float) -> Finding:
    return Finding(Harm.LOST, ANSWER, seconds=seconds)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("mode", ["default", "strict", "durable", "strict-durable"])
def test_every_promise_is_kept_when_nothing_is_lost(fault: str, mode: str) -> None:
    assert result(fault, mode).broken() == []


@pytest.mark.parametrize(
    ("fault", "mode", "seconds", "kept"),
    [
        ("replica", "default", 0.009, True),
        ("replica", "default", 0.011, False),
        ("replica", "strict", 0.001, False),
        ("replica", "durable", 0.009, True),
        ("replica", "strict-durable", 0.001, False),
        ("actor", "default", 0.001, False),
        ("replica+actor", "strict", 1.0, True),
        ("replica+actor", "strict-durable", 0.001, False),
        ("none", "default", float("inf"), False),
        ("scale", "default", 0.001, False),
        ("ray", "default", 1.0, True),
        ("ray", "strict", 1.0, True),
        ("ray", "durable", 0.011, False),
        ("ray", "strict-durable", 0.001, False),
    ],
)
def test_a_loss_is_judged_by_fault_mode_and_age(
    fault: str, mode: str, seconds: float, kept: bool
) -> None:
    assert bool(result(fault, mode, lost(seconds)).broken()) is not kept


def test_slack_is_for_what_may_be_lost_at_all() -> None:
    assert result("replica", "default", lost(0.2)).broken(slack_s=0.2) == []
    assert result("replica", "default", lost(0.3)).broken(slack_s=0.2) != []
    assert result("replica", "strict", lost(0.001)).broken(slack_s=0.2) != []


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("harm", [Harm.DOUBLED, Harm.REVIVED])
def test_nothing_may_ever_be_doubled_or_revived(fault: str, harm: Harm) -> None:
    assert result(fault, "default", Finding(harm, ANSWER)).broken() == [
        f"1 steps were {harm.value}"
    ]


def test_a_state_that_is_never_answered_for_again_breaks_the_promise() -> None:
    assert result("replica", "default", silent=2).broken() != []
