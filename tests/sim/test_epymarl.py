"""A city as EPyMARL's gymma drives it: sizes, masks, order, seeds, and the end of an episode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from gymnasium.wrappers import TimeLimit
from lab.train.mappo.traffic import TRAINING_SEED

from examples.epymarl import gymma
from lab.sim.environment import Environment
from lab.sim.scenario import InvalidScenarioError, Scenario
from lab.train.signals import Signals
from models.networks.file import InvalidNetworkError, network_as_json
from models.networks.network import network_of
from models.networks.shipped import NET_FILE
from models.policy.inputs import InputLayout
from tests.sim.test_environment import BEGIN_S, WAYS, scenario_with

KEY = "examples.epymarl.gymma:city-v0"
END_S = BEGIN_S + 300
STEPS = 30


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    """Five unlike junctions, named in the file in another order than that of their agents."""
    folder = tmp_path_factory.mktemp("city")
    trips = "".join(
        f'<trip id="{second}_{start}" depart="{second}" from="{start}" to="{end}"/>'
        for second in range(BEGIN_S, END_S, 10)
        for start, end in WAYS
    )
    made = scenario_with(folder, trips)
    junctions = tuple(reversed(made.network.junctions))
    network = made.network.model_copy(update={"junctions": junctions})
    return replace(made, network=network, end_s=END_S, min_green_s=5, counts="all")


@pytest.fixture
def open_city(scenario, tmp_path):
    """Make the environment by its name, as gymma does, with options that are words."""
    network = tmp_path / "city.json"
    network.write_text(network_as_json(scenario.network))
    opened: list[gymnasium.Env[Any, Any]] = []

    def make(**options: Any) -> gymnasium.Env[Any, Any]:
        named: dict[str, Any] = {
            "network": str(network),
            "net": str(NET_FILE),
            "routes": str(scenario.demand.files[0]),
            "begin": BEGIN_S,
            "end": END_S,
            "counts": "all",
        }
        opened.append(TimeLimit(gymnasium.make(KEY, **named | options), STEPS))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def drawn(seed: int, episodes: int) -> list[int]:
    """Return the seeds of SUMO that follow from one of Gymnasium."""
    rng, _ = gymnasium.utils.seeding.np_random(seed)
    return [TRAINING_SEED + int(rng.integers(gymma.SEEDS)) for _ in range(episodes)]


def test_spaces_are_those_of_the_network_with_unlike_junctions(open_city, scenario):
    network = network_of(scenario.network)
    city = open_city()
    assert city.unwrapped.n_agents == network.n_agents == 5
    assert {space.shape for space in city.observation_space} == {(network.max_obs,)}
    actions = np.array([space.n for space in city.action_space])
    masks = np.arange(actions.max()) >= actions[:, None]  # as gymma makes them of the spaces
    assert (masks == network.unavailable).all()
    assert 0 < masks.sum() < masks.size


def test_it_observes_and_rewards_as_the_city_does_in_the_order_of_agents(open_city, scenario):
    network = network_of(scenario.network)
    city, layout = open_city(team_share=0.5), InputLayout(network)
    rng = np.random.default_rng(0)
    taken = [[int(rng.integers(space.n)) for space in city.action_space] for _ in range(STEPS)]
    seen, rewarded = [city.reset(seed=7)[0]], []
    for actions in taken:
        observations, rewards, *_ = city.step(actions)
        assert observations in city.observation_space
        seen.append(observations)
        rewarded.append(rewards)
    signals = Signals(scenario, "time_loss", 0.5)
    observed = signals.reset(drawn(7, 1)[0])
    for step, actions in enumerate([*taken, taken[0]]):
        inputs = layout.encode_all(observed)
        assert (np.array(seen[step]) == inputs[:, : network.max_obs]).all()
        if step < STEPS:
            observed, own = signals.step(dict(zip(network.ids, actions, strict=True)))
            assert rewarded[step] == own.tolist()
    signals.close()
    assert min(map(sum, rewarded)) < 0


def test_the_end_truncates_and_says_so_with_the_delay_that_is_judged(open_city, scenario):
    city = open_city()
    city.reset(seed=7)
    steps = [city.step([0] * 5)[2:] for _ in range(STEPS)]
    assert steps[:-1] == [(False, False, {})] * (STEPS - 1)
    with Environment(scenario) as environment:
        environment.reset(drawn(7, 1)[0])
        while not environment.is_over:
            environment.step(dict.fromkeys(network_of(scenario.network).ids, 0))
        delay_s = environment.metrics().time_loss_s
    assert steps[-1] == (False, True, {"episode_limit": True, "delay_s": delay_s})
    assert delay_s > 0


def test_one_seed_draws_all_episodes_and_none_is_of_evaluation(open_city, monkeypatch):
    seeds: list[int] = []
    reset = Signals.reset

    def record(signals: Signals, seed: int) -> Any:
        seeds.append(seed)
        return reset(signals, seed)

    monkeypatch.setattr(Signals, "reset", record)
    for seed in (1, 1, 2):
        city = open_city()
        city.reset(seed=seed)
        city.reset()
    assert seeds == [*drawn(1, 2), *drawn(1, 2), *drawn(2, 2)]
    assert len(set(seeds)) == 4
    assert min(seeds) >= TRAINING_SEED


def test_actions_that_a_junction_does_not_have_are_refused(open_city):
    city = open_city()
    city.reset(seed=1)
    few = [space.n for space in city.action_space]
    with pytest.raises(ValueError, match="is not one of"):
        city.step(few)
    with pytest.raises(ValueError, match="shorter"):
        city.step([0] * 4)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"speed": 3}, InvalidScenarioError, "unrecognized arguments: --speed 3"),
        ({"counts": "some"}, InvalidScenarioError, "invalid choice: 'some'"),
        ({"network": "none.json"}, InvalidNetworkError, "none.json"),
        ({"reward": "speed"}, ValueError, "'speed' is not one of time_loss, waiting_change"),
    ],
    ids=["option", "value", "file", "reward"],
)
def test_what_cannot_be_used_is_a_sentence(open_city, options, error, said):
    with pytest.raises(error, match=said):
        open_city(**options)


def test_several_files_of_routes_are_a_list_and_dashes_are_underscores(open_city, scenario):
    routes = [str(scenario.demand.files[0])] * 2
    city = open_city(routes=routes, min_green=20, all_red=1).unwrapped
    made: Scenario = city._signals.scenario
    assert made.demand.files == scenario.demand.files * 2
    assert (made.min_green_s, made.all_red_s, made.counts) == (20, 1, "all")
