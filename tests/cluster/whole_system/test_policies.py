"""A canary and a shadow beside the policy in service: no request fails, no state mixes."""

import asyncio
import contextlib
import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.inference.policies import bucket_of
from load_tests.chaos.checker import TOLERANCE
from load_tests.chaos.history import Prediction
from load_tests.harness.system_under_test import SystemUnderTest
from tests.cluster.conftest import Weights, save_policy
from tests.cluster.load import Load
from tests.reference import JUNCTIONS, ReferenceJunction

RUNS = sorted((f"trial-{n}" for n in range(20)), key=bucket_of)
EARLY, LATE = RUNS[0], RUNS[-1]  # the first and the last to go over to a canary
CHANGES: list[tuple[tuple[str, ...], int, int]] = [
    ((), 0, 0),
    (("start", "--share", "50%"), 1, 0),
    (("drop",), 0, 0),
    (("start", "--shadow"), 0, 0),
    (("start", "--share", "50%"), 1, 0),
    (("promote",), 1, 1),
]
"""With the policy that then answers the early run, and the late one: 0 is the first in service."""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Weights]:
    path = tmp_path_factory.mktemp("other") / "other.th"
    return path, save_policy(path, seed=2)


@pytest.fixture(autouse=True)
def policy_of_the_config(sut: SystemUnderTest) -> Iterator[None]:
    """Put the policy of the config back in service."""
    yield
    sut.deploy(sut.served[-1])


async def test_start_share_drop_and_promote_fail_no_request_and_mix_no_states(sut, weights, other):
    def change(*words: str) -> None:
        if words:
            file = (str(other[0]),) if words[0] == "start" else ()
            sut.run("canary", words[0], *file, *words[1:], "--app", "inference")

    replicas = [process.pid for process in sut.replicas("inference")]
    url, token = sut.instance.base_url, sut.env["INFERENCE_TOKEN"]
    async with contextlib.AsyncExitStack() as stack:
        loads = [
            await stack.enter_async_context(
                Load(url, run, n_clients=1, seed=n, junctions=[junction], token=token)
            )
            for run in (EARLY, LATE)
            for n, junction in enumerate(JUNCTIONS[:2])
        ]
        n_answers = []
        for words, _, _ in CHANGES:
            await asyncio.to_thread(change, *words)
            await asyncio.gather(*(load.more(20) for load in loads))
            n_answers.append([len(load.answers) for load in loads])
    assert [load.failures for load in loads if load.failures] == []
    assert [process.pid for process in sut.replicas("inference")] == replicas
    for load, ends in zip(loads, zip(*n_answers, strict=True), strict=True):
        policies = policies_of(load.answers, [weights, other[1]])
        expected = [early if load.run == EARLY else late for _, early, late in CHANGES]
        start, before = 0, expected[0]
        for end, after in zip(ends, expected, strict=True):
            # replicas receive a change one after the other; until then either policy may answer
            assert set(policies[start:end]) <= {before, after}, (load.run, start)
            assert policies[end - 1] == after, (load.run, end)
            start, before = end, after


def policies_of(answers: list[Prediction], policies: list[Weights]) -> list[int]:
    """Return which policy made each answer of one client, each from its own states."""
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
