"""A real policy with random weights, and the comparison of its steps with the formulas."""

from collections.abc import Sequence

import numpy as np
import pytest

from deployments.inference.policy_model import ObservedRows
from deployments.stateful.calls import Keys, Rows, StepResult
from deployments.stateful.row import Key
from models.networks.shipped import SHIPPED
from models.policy.step import PolicyStep
from tests.reference import ReferencePolicy, random_state_dict

WEIGHTS = random_state_dict()
POLICY = PolicyStep(WEIGHTS, SHIPPED)
REFERENCE = ReferencePolicy(WEIGHTS)

BIG = "joinedS_265580996_300839357"
SMALL = "300839359"

Prediction = tuple[list[float], StepResult]
"""An observation, and the result of its step."""


def observations(n: int, size: int = 8) -> list[list[float]]:
    """Return n distinct observations, exact in float32."""
    values = np.random.default_rng(0).random((n, size)).astype(np.float32)
    return [[float(x) for x in row] for row in values]


def rows_of(runs: Sequence[str], obs: Sequence[float]) -> Rows:
    """Return a step of the small junction in each run, with the same observation."""
    columns = np.zeros((len(runs), SHIPPED.max_obs), np.float32)
    columns[:, : len(obs)] = obs
    inputs = ObservedRows([SHIPPED.junctions[SMALL].agent_index] * len(runs), columns)
    return Rows(Keys([Key(run, SMALL) for run in runs]), inputs)


def assert_replays(
    junction: str, predictions: Sequence[Prediction], reference: ReferencePolicy = REFERENCE
) -> None:
    """Assert that the results are one run from zeros in the order of their steps, each once."""
    in_order = sorted(predictions, key=lambda each: each[1].step)
    steps = [result.step for _, result in in_order]
    assert steps == list(range(1, len(predictions) + 1))
    expected = reference.replay(junction, [obs for obs, _ in in_order])
    for (_, result), (action, confidence) in zip(in_order, expected, strict=True):
        assert result.output[1] == pytest.approx(confidence, abs=3e-4)
        if confidence > 0.501:  # otherwise two actions are as good as equal
            assert result.output[0] == action
