from models.networks.shipped import JUNCTIONS, MAX_OBS, N_ACTIONS, N_AGENTS


def test_the_table_is_the_contracts_in_its_order():
    assert list(JUNCTIONS) == [
        "joinedS_265580996_300839357",
        "300839359",
        "265580972",
        "1270712555",
        "8541180897",
    ]
    assert [j.agent_index for j in JUNCTIONS.values()] == [0, 1, 2, 3, 4]
    assert (N_AGENTS, N_ACTIONS, MAX_OBS) == (5, 4, 19)


def test_masks_and_observation_sizes_follow_from_the_phases():
    big, *small = JUNCTIONS.values()
    assert (big.avail_actions, big.obs_size) == ((1, 1, 1, 1), 19)
    assert {(j.avail_actions, j.obs_size) for j in small} == {((1, 1, 0, 0), 8)}
