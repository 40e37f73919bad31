"""The shipped network is that of the documents, and its file is what its net says."""

from lab.net.importing import import_network
from models.networks.shipped import NET_FILE, SHIPPED, SHIPPED_FILE


def test_the_junctions_are_those_of_the_contract_in_its_order():
    assert list(SHIPPED.junctions) == [
        "joinedS_265580996_300839357",
        "300839359",
        "265580972",
        "1270712555",
        "8541180897",
    ]
    assert [each.agent_index for each in SHIPPED.junctions.values()] == [0, 1, 2, 3, 4]
    assert (SHIPPED.n_agents, SHIPPED.n_actions, SHIPPED.max_obs) == (5, 4, 19)
    big, *small = SHIPPED.junctions.values()
    assert (SHIPPED.avail_actions(big.id), big.obs_size) == ((1, 1, 1, 1), 19)
    assert {(SHIPPED.avail_actions(j.id), j.obs_size) for j in small} == {((1, 1, 0, 0), 8)}


def test_hidden_states_that_were_stored_before_still_belong_to_it():
    assert SHIPPED.digest == "c759c9a4a9d7e05e"


def test_the_file_is_what_an_import_of_the_net_makes_but_for_names_order_and_limits():
    imported, remarks = import_network(NET_FILE, "greenwave")
    assert list(remarks.sentences()) == []
    plain = [
        each.model_copy(
            update={
                "name": None,
                "agent_index": 0,
                "phases": tuple(phase.model_copy(update={"name": None}) for phase in each.phases),
                "lanes": tuple(lane.model_copy(update={"detector": None}) for lane in each.lanes),
            }
        )
        for network in (SHIPPED_FILE, imported)
        for each in sorted(network.junctions, key=lambda junction: junction.id)
    ]
    assert plain[:5] == plain[5:]


def test_every_link_that_conflicts_needs_an_intergreen_time_both_ways():
    for junction in SHIPPED_FILE.junctions:
        assert junction.conflicts
        assert junction.intergreen_s is not None
        for a, b in junction.conflicts:
            assert junction.intergreen_s[a][b] is not None
            assert junction.intergreen_s[b][a] is not None


def test_no_two_links_that_conflict_have_priority_together():
    for junction in SHIPPED_FILE.junctions:
        for state in (phase.state or "" for phase in junction.phases):
            assert not any(state[a] == state[b] == "G" for a, b in junction.conflicts or ())
