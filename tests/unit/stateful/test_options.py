"""Options of the engine, and the times that follow from them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from deployments.stateful.options import StateOptions


@pytest.mark.parametrize(
    "args",
    [
        {"shards": 65},
        {"lease_s": 0.2},
        {"lease_s": 61},
        {"loss_bound_s": 0},
        {"loss_bound_s": 1.1},
        {"snapshot_period_s": 0},
        {"run_ttl_s": 0},
        {"unknown": 1},
    ],
    ids=str,
)
def test_a_value_out_of_range_is_refused_by_name(args):
    (name,) = args
    with pytest.raises(ValidationError, match=name):
        StateOptions.model_validate(args)


@pytest.mark.parametrize(
    ("durability", "responses_wait", "commits_reach_store"),
    [
        ("memory", False, False),
        ("store_async", False, True),
        ("actor", True, False),
        ("store", True, True),
    ],
)
def test_durability_decides_which_side_waits(durability, responses_wait, commits_reach_store):
    options = StateOptions(durability=durability)
    assert options.responses_wait is responses_wait
    assert options.commits_reach_store is commits_reach_store
    assert (options.commit_delay_s == 0) is responses_wait


def test_the_limit_on_states_is_shared_by_the_shards_and_leaves_each_at_least_one():
    assert StateOptions(max_states=100, shards=3).max_states_per_shard == 33
    assert StateOptions(max_states=2, shards=4).max_states_per_shard == 1


@pytest.mark.parametrize("lease_s", [0.21, 2.0, 60.0])
def test_times_keep_their_order_for_every_lease(lease_s):
    options = StateOptions(lease_s=lease_s)
    assert 3 * options.listen_s < lease_s, "three polls may fail in a row"
    assert 2 * options.open_timeout_s < lease_s, "two attempts fit into a lease"
    assert options.leader_lease_s == lease_s
    assert options.lease_margin_s > 0
    a_broken_lease_s = lease_s + options.lease_margin_s
    assert options.checkout_timeout_s > a_broken_lease_s, "an owner's lease may have to expire"


@pytest.mark.parametrize("loss_bound_s", [0.001, 0.01, 1.0])
def test_a_commit_is_sent_before_responses_would_wait_for_it(loss_bound_s):
    options = StateOptions(loss_bound_s=loss_bound_s)
    assert 0 < options.commit_delay_s < options.loss_bound_s / 2


def test_a_response_waits_for_its_commit_for_two_leases():
    assert StateOptions(lease_s=3.0).commit_timeout_s == 6.0
