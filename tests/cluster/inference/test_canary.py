"""A policy tried beside the one in service, under load: nobody is refused, every state is exact."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from pathlib import Path
from typing import Any

import pytest

from deployments.inference.policies import place_of
from serve_app.launcher import trial
from testbed.system import System, application
from tests.cluster.conftest import Weights, save_policy
from tests.cluster.inference.load import TOLERANCE, Answer, Load
from tests.reference import JUNCTIONS, ReferenceJunction

APP = "inference-trial"
RUNS = sorted((f"trial-{n}" for n in range(20)), key=place_of)
EARLY, LATE = RUNS[0], RUNS[-1]  # the first and the last to go over to a canary

Config = dict[str, Any]


class Trial:
    """The application, as the commands change it."""

    def __init__(self, system: System, candidate: Path) -> None:
        self._system = system
        self._candidate = candidate
        self._config: Config = {"applications": [application(APP, "/trial", replicas=2)]}

    def deploy(self) -> None:
        self._system.deploy(*self._config["applications"])

    def start(self, mode: trial.Mode, share: float) -> None:
        self._config = trial.started(self._config, APP, self._candidate, mode, share, None)
        self.deploy()

    def share(self, share: float) -> None:
        self._config = trial.shared(self._config, APP, share)
        self.deploy()

    def drop(self) -> None:
        self._config = trial.dropped(self._config, APP)
        self.deploy()

    def promote(self) -> None:
        self._config = trial.promoted(self._config, APP)
        self.deploy()


@pytest.mark.timeout(400)
async def test_start_share_drop_and_promote_fail_no_request_and_mix_no_states(
    system: System, weights: Weights, tmp_path: Path
) -> None:
    other = save_policy(tmp_path / "other.th", seed=2)
    tried = Trial(system, tmp_path / "other.th")
    await asyncio.to_thread(tried.deploy)
    replicas = [process.pid for process in system.replicas(APP)]
    async with contextlib.AsyncExitStack() as stack:
        loads = [
            await stack.enter_async_context(
                Load(f"{system.url}/trial", run, n_clients=1, seed=n, junctions=[junction])
            )
            for run in (EARLY, LATE)
            for n, junction in enumerate(JUNCTIONS)
        ]
        for change in (
            lambda: None,
            lambda: tried.start("canary", 0.5),
            lambda: tried.share(1.0),
            lambda: tried.share(0.5),
            tried.drop,
            lambda: tried.start("shadow", 1.0),
            lambda: tried.start("canary", 0.5),
            tried.promote,
        ):
            await asyncio.to_thread(change)
            await asyncio.gather(*(load.more(20) for load in loads))
    assert [load.failures for load in loads if load.failures] == []
    assert [process.pid for process in system.replicas(APP)] == replicas
    for load in loads:
        phases = policies_of(load.answers, [weights, other])

        assert [policy for policy, _ in phases] == [0, 1, 0, 1], load.run
    system.remove(APP)


def policies_of(answers: list[Answer], policies: list[Weights]) -> list[tuple[int, int]]:
    """Replay the answers of one client, each policy from states of its own.

    Returns:
        Which policy answered, and how many times in a row.
    """
    references = [ReferenceJunction(each, answers[0].junction) for each in policies]
    steps = [0] * len(policies)
    phases: list[tuple[int, int]] = []
    for answer in answers:
        for number, reference in enumerate(references):
            attempt = copy.deepcopy(reference)
            _, confidence = attempt.step(answer.obs)
            if abs(answer.confidence - confidence) < TOLERANCE and answer.step == steps[number] + 1:
                break
        else:
            pytest.fail(f"{answer} is the next step of neither policy: {steps}")
        references[number], steps[number] = attempt, answer.step
        if phases and phases[-1][0] == number:
            phases[-1] = (number, phases[-1][1] + 1)
        else:
            phases.append((number, 1))
    return phases
