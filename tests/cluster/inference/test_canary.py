"""A canary beside the policy in service, under load: all requests succeed, every state is exact."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deployments.inference.policies import bucket_of
from load_tests.chaos.checker import TOLERANCE
from load_tests.chaos.history import Prediction
from load_tests.harness.system import System, application
from serve_app.rollout import canary
from tests.cluster.conftest import Weights, save_policy
from tests.cluster.inference.load import Load
from tests.reference import JUNCTIONS, ReferenceJunction

APP = "inference-trial"
RUNS = sorted((f"trial-{n}" for n in range(20)), key=bucket_of)
EARLY, LATE = RUNS[0], RUNS[-1]  # the first and the last to go over to a canary

Config = dict[str, Any]


class CanaryRollout:
    """The application, as the commands change it."""

    def __init__(self, system: System, canary: Path) -> None:
        self._system = system
        self._canary = canary
        self._config: Config = {"applications": [application(APP, "/trial", replicas=2)]}

    def deploy(self) -> None:
        self._system.deploy(*self._config["applications"])

    def start(self, mode: canary.Mode, share: float) -> None:
        self._config = canary.start_canary(self._config, APP, self._canary, mode, share, None)
        self.deploy()

    def share(self, share: float) -> None:
        self._config = canary.set_share(self._config, APP, share)
        self.deploy()

    def drop(self) -> None:
        self._config = canary.drop_canary(self._config, APP)
        self.deploy()

    def promote(self) -> None:
        self._config = canary.promote_canary(self._config, APP)
        self.deploy()


CHANGES: list[tuple[Callable[[CanaryRollout], None], int, int]] = [
    (lambda tried: None, 0, 0),
    (lambda tried: tried.start("canary", 0.5), 1, 0),
    (lambda tried: tried.share(1.0), 1, 1),
    (lambda tried: tried.share(0.5), 1, 0),
    (lambda tried: tried.drop(), 0, 0),
    (lambda tried: tried.start("shadow", 1.0), 0, 0),
    (lambda tried: tried.start("canary", 0.5), 1, 0),
    (lambda tried: tried.promote(), 1, 1),
]
"""With the policy that then answers the early run, and the late one: 0 is the first in service."""


@pytest.mark.timeout(400)
async def test_start_share_drop_and_promote_fail_no_request_and_mix_no_states(
    system, weights, tmp_path
):
    other = save_policy(tmp_path / "other.th", seed=2)
    tried = CanaryRollout(system, tmp_path / "other.th")
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
        n_answers = []
        for change, _, _ in CHANGES:
            await asyncio.to_thread(change, tried)
            await asyncio.gather(*(load.more(20) for load in loads))
            n_answers.append([len(load.answers) for load in loads])
    assert [load.failures for load in loads if load.failures] == []
    assert [process.pid for process in system.replicas(APP)] == replicas
    for load, ends in zip(loads, zip(*n_answers, strict=True), strict=True):
        policies = policies_of(load.answers, [weights, other])
        expected = [early if load.run == EARLY else late for _, early, late in CHANGES]
        start, before = 0, expected[0]
        for end, after in zip(ends, expected, strict=True):
            # replicas receive a change one after the other; until then either policy may answer
            assert set(policies[start:end]) <= {before, after}, (load.run, start)
            assert policies[end - 1] == after, (load.run, end)
            start, before = end, after
    system.remove(APP)


def policies_of(answers: list[Prediction], policies: list[Weights]) -> list[int]:
    """Return which policy made each answer of one client, each from states of its own."""
    references = [ReferenceJunction(each, answers[0].key.junction) for each in policies]
    steps = [0] * len(policies)
    policies_that_answered: list[int] = []
    for answer in answers:
        for number, reference in enumerate(references):
            attempt = copy.deepcopy(reference)
            _, confidence = attempt.step(answer.observation)
            if abs(answer.confidence - confidence) < TOLERANCE and answer.step == steps[number] + 1:
                break
        else:
            pytest.fail(f"{answer} is the next step of neither policy: {steps}")
        references[number], steps[number] = attempt, answer.step
        policies_that_answered.append(number)
    return policies_that_answered
