"""What a serve config may say of the inference service."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from deployments.inference.options import InferenceOptions


@pytest.mark.parametrize(
    "args",
    [
        {"lease": 2.0},
        {"shards": 0},
        {"shards": 65},
        {"lease_s": 0.2},
        {"commit_delay_s": 0.01},  # the loss bound
        {"loss_bound_s": 0},
        {"commit_timeout_s": 0},
        {"leader_lease_s": 0.2},
        {"max_states": 0},
        {"shared_patience_s": 0},
    ],
    ids=str,
)
def test_an_unknown_key_or_a_value_out_of_range_is_refused_by_name(args: dict[str, float]) -> None:
    (name,) = args
    with pytest.raises(ValidationError, match=name):
        InferenceOptions.model_validate(args)


def test_the_cap_on_states_is_shared_by_the_shards_and_leaves_each_at_least_one() -> None:
    assert InferenceOptions(max_states=100, shards=3).max_states_per_shard == 33
    assert InferenceOptions(max_states=2, shards=4).max_states_per_shard == 1


def test_a_lease_is_renewed_well_before_it_runs_out() -> None:
    assert InferenceOptions(lease_s=10).listen_s == 2.5


def test_what_is_stepped_is_committed_before_answers_would_wait_for_it() -> None:
    with pytest.raises(ValidationError, match="commit_delay_s must be below loss_bound_s"):
        InferenceOptions(commit_delay_s=0.004, loss_bound_s=0.004)


def test_commits_cannot_wait_for_copies_that_are_not_kept() -> None:
    with pytest.raises(ValidationError, match="durable needs snapshots"):
        InferenceOptions(durable=True, snapshots=False)
