"""Schedules that once broke a promise, each with the fault that it needs at the worst moment."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from deployments.stateful.options import Durability
from tests.unit.stateful.simulation.actions import MODES, Action, Schedule
from tests.unit.stateful.simulation.loop import SimulatedLoop
from tests.unit.stateful.simulation.play import Play
from tests.unit.stateful.simulation.run import run
from tests.unit.stateful.simulation.times import a_tenth_as_long


def predict(after: float) -> Action:
    return Action(after, "predict", 0, 0, 0.0)


def _assert_no_breach(schedules: list[Schedule]) -> None:
    with a_tenth_as_long():
        for schedule in schedules:
            result = run(schedule)
            assert result.breach is None, f"{result.breach}\n{schedule}"


@pytest.mark.parametrize("mode", MODES)
def test_a_claim_that_arrives_while_a_reset_is_written_does_not_bring_the_state_back(
    mode: Durability,
) -> None:
    """The owner stalls past its lease, and claims with the next term during the reset's write."""
    schedules = []
    for stall, earlier, seed in itertools.product((0.5, 0.6), (0.15, 0.1, 0.05, 0.0), range(2)):
        actions = (
            Action(0.25, "predict", 2, 0, 0.0),  # another key, so that snapshots are written
            predict(0.0),
            predict(0.01),
            Action(0.01, "kill authority", 0, 0, 0.02),
            Action(0.0, "stall replica", 0, 0, stall),
            Action(stall - earlier - 0.05, "store slow", 0, 2, 0.6),
            Action(0.05, "reset", 0, 1, 0.0),
            predict(0.3),
            predict(0.05),
        )
        schedules.append(Schedule(seed, mode, actions, n_replicas=2))
    _assert_no_breach(schedules)


@pytest.mark.parametrize("mode", MODES)
def test_no_snapshot_from_before_a_reset_is_restored_in_another_layout(
    mode: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything restarts with two shards just after the reset, which no snapshot may follow."""

    def restart(self: Play, action: Action) -> None:
        self.world.options = self.world.options.model_copy(update={"shards": 2})
        self._restart_all(action)

    monkeypatch.setattr(Play, "_restart_with_two_shards", restart, raising=False)
    schedules = []
    for before, gap in itertools.product((0.034, 0.038, 0.042), (0.008, 0.014, 0.02, 0.032)):
        actions = (
            predict(0.1),
            *(predict(0.03) for _ in range(5)),
            Action(0.0, "store slow", 0, 0, 0.1),
            Action(before, "reset", 0, 1, 0.0),
            Action(gap, "restart with two shards", 0, 0, 0.0),
            predict(0.8),
        )
        schedules.append(Schedule(0, mode, actions, n_replicas=2, restore=True))
    _assert_no_breach(schedules)


@pytest.mark.parametrize("mode", MODES)
def test_restored_states_outlive_a_rollout_that_restores_no_more(
    mode: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart restores; then the options change, and the state actor alone is created anew."""

    def stop_restoring(self: Play, action: Action) -> None:
        self.world.options = self.world.options.model_copy(update={"restore_after_restart": False})
        for actor in self.world.actors.values():
            actor.kill(down_s=0.02)

    monkeypatch.setattr(Play, "_stop_restoring", stop_restoring, raising=False)
    actions = (
        *(predict(0.05) for _ in range(5)),
        Action(0.5, "restart all", 0, 0, 0.0),
        Action(1.0, "stop restoring", 0, 0, 0.0),
        predict(0.5),
    )
    with a_tenth_as_long(), contextlib.closing(SimulatedLoop()) as loop:  # type: ignore[abstract]
        played = Play(Schedule(0, mode, actions, n_replicas=2, restore=True), loop)
        loop.run(played.run())
    assert [asked.step for asked in played.world.history.asked[:6]] == [1, 2, 3, 4, 5, 6]
