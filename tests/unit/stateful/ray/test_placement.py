"""Placement of state actors: as far apart as the nodes allow, and moved only for a reason."""

from __future__ import annotations

import pytest
import ray

from deployments.stateful.ray.placement import choose_node, is_misplaced, serving_nodes


def spread(shards: int, nodes: list[str], places: dict[str, str]) -> dict[str, str]:
    """Move actors, one after the other, until none is misplaced."""
    for _ in range(2 * shards):
        leaving = [name for name in places if is_misplaced(name, places, nodes)]
        if not leaving:
            return places
        others = [node for name, node in places.items() if name != leaving[0]]
        node = choose_node(int(leaving[0]), nodes, others)
        assert node is not None
        places = places | {leaving[0]: node}
    raise AssertionError("they move indefinitely")


def test_actors_created_at_once_and_unaware_of_each_other_get_different_nodes():
    assert {choose_node(shard, ["b", "a", "c"], []) for shard in range(3)} == {"a", "b", "c"}


def test_a_new_actor_is_placed_on_a_node_with_the_fewest():
    assert choose_node(0, ["a", "b", "c"], ["a", "a", "b"]) == "c"
    assert choose_node(7, ["a", "b"], ["a"]) == "b"


def test_without_a_node_for_state_actors_an_actor_is_placed_anywhere_and_stays():
    assert choose_node(0, [], ["a"]) is None
    assert not is_misplaced("0", {"0": "a"}, [])


@pytest.mark.parametrize("shards", [1, 2, 5, 8])
def test_when_a_node_joins_as_many_actors_move_as_necessary(shards):
    before = {str(shard): "a" for shard in range(shards)}
    after = spread(shards, ["a", "b"], before)
    on_a, on_b = [list(after.values()).count(node) for node in "ab"]
    assert abs(on_a - on_b) <= 1
    assert sum(before[name] != after[name] for name in before) == on_b


def test_of_several_on_one_node_one_leaves_at_a_time():
    places = {"0": "a", "1": "a", "2": "a"}
    assert [name for name in places if is_misplaced(name, places, ["a", "b"])] == ["2"]


def test_no_actor_moves_for_a_difference_of_one():
    places = {"0": "a", "1": "b", "2": "a"}
    assert not any(is_misplaced(name, places, ["a", "b"]) for name in places)


def test_all_actors_leave_a_node_without_cpus():
    after = spread(2, ["a", "b"], {"0": "head", "1": "head"})
    assert set(after.values()) == {"a", "b"}


def test_an_actor_of_an_unknown_place_stays():
    assert not is_misplaced("0", {"1": "a", "2": "a"}, ["a", "b"])


def test_dead_nodes_and_those_without_cpus_are_not_for_state_actors(monkeypatch):
    nodes = [
        {"NodeID": "serves", "Alive": True, "Resources": {"CPU": 2.0}},
        {"NodeID": "head", "Alive": True, "Resources": {"memory": 1.0}},
        {"NodeID": "dead", "Alive": False, "Resources": {"CPU": 2.0}},
    ]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    assert serving_nodes() == ["serves"]
