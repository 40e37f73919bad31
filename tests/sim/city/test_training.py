"""Training for any city: it ends with a policy that is served, and goes on where it was."""

from __future__ import annotations

import csv
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("libsumo", reason="SUMO is not installed")

from models.networks.file import network_as_json, read_network_file
from models.networks.network import network_of
from models.networks.shipped import NET_FILE
from models.policy.form import PolicyForm
from models.policy.network import RecurrentPolicy
from models.policy.step import PolicyStep
from models.simulation.city.episode import CONTROLLERS
from models.simulation.city.policy import by_policy
from models.simulation.city.scenario import CityScenario
from models.sumo.importing import import_network
from models.training.city.__main__ import write_start
from models.training.city.delays import Delays, agents_of_edges
from models.training.city.greedy import fits
from models.training.city.problem import CityProblem
from models.training.mappo.config import Config
from models.training.traffic_levels import TRAINING_SEED
from tests.cities import agent_for, save, small_city
from tests.documentation import ROOT
from tests.sim.city.test_environment import scenario_with

pytestmark = pytest.mark.timeout(600)

EVERY_SECOND = [
    f'<trip id="{second}_{start}" depart="{second}" from="{start}" to="{end}"/>'
    for second in range(3600, 3900, 4)
    for start, end in (("west_to_station", "park_to_east"), ("north_to_market", "center_to_south"))
]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> CityScenario:
    return scenario_with(tmp_path_factory.mktemp("town"), "".join(EVERY_SECOND))


def train(folder: Path, scenario: CityScenario, *options: str) -> subprocess.CompletedProcess[str]:
    network = folder / "town.json"
    network.write_text(network_as_json(scenario.network))
    command = [sys.executable, "-m", "models.training.city", f"--network={network}"]
    files = [f"--net={scenario.net}", f"--routes={scenario.routes[0]}", f"--output={folder}"]
    times = ["--begin=3600", "--end=4200"]
    size = ["--episodes=2", "--validate-every=2"]
    return subprocess.run(
        [*command, *files, *times, *size, *options], capture_output=True, text=True
    )


def test_a_run_leaves_a_policy_that_serves_and_longer_runs_are_other_runs(tmp_path, scenario):
    done = train(tmp_path, scenario, "--iterations=1")
    assert done.returncode == 0, done.stderr
    assert f"agent_path: {tmp_path / 'best.th'}" in done.stderr + done.stdout
    for kept in ("best.th", "last.th"):
        assert by_policy(scenario, 1, tmp_path / kept).demanded == len(EVERY_SECOND)
    with (tmp_path / "log.csv").open(newline="") as file:
        assert [row["iteration"] for row in csv.DictReader(file)] == ["0", "1"]
    again = train(tmp_path, scenario, "--iterations=2")
    assert "made with iterations 1, not 2" in again.stderr
    assert again.returncode == 1
    assert "Traceback" not in again.stderr


def left_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--reward=speed", "reward 'speed' is not one of time_loss, waiting_change"),
        ("--validate-every=0", "validate_every 0 is less than 1"),
        ("--iterations=0", "iterations 0 is less than 1"),
        ("--start=shy", "shy: no such file"),
        ("--repeats=0", "repeats 0 is less than 1"),
        ("--repeats=3", "2 episodes are not groups of 3 repeats"),
    ],
)
def test_bad_input_is_told_in_a_sentence_and_nothing_is_written(tmp_path, scenario, option, said):
    done = train(tmp_path, scenario, option)
    assert done.returncode == 1
    assert done.stderr.strip() == said
    assert left_in(tmp_path) == ["town.json"]


def test_a_net_of_another_city_is_refused_and_nothing_is_written(tmp_path, scenario):
    other = read_network_file(ROOT / "configs" / "harbour.json")
    done = train(tmp_path, replace(scenario, network=other))
    assert done.stderr.strip() == "greenwave.net.xml has no signal pier, which harbour has."
    assert left_in(tmp_path) == ["town.json"]


def test_a_start_of_another_city_is_refused_and_nothing_is_written(tmp_path, scenario):
    start = save(agent_for(small_city()), tmp_path / "other.th")
    done = train(tmp_path, scenario, f"--start={start}")
    assert done.returncode == 1
    assert str(start) in done.stderr
    assert "expected (128, 24)" in done.stderr
    assert left_in(tmp_path) == ["other.th", "town.json"]


@pytest.mark.parametrize("agent_id", [True, False], ids=["with one-hot", "without"])
def test_any_policy_of_the_city_is_a_start_that_does_what_it_did(tmp_path, scenario, agent_id):
    agent = save(agent_for(network_of(scenario.network), agent_id), tmp_path / "agent.th")
    write_start(scenario, 0, tmp_path / "start.th", str(agent))
    assert by_policy(scenario, 1, tmp_path / "start.th") == by_policy(scenario, 1, agent)


def test_of_several_starts_the_mean_is_taken(tmp_path, scenario):
    agents = [agent_for(network_of(scenario.network), seed=seed) for seed in (1, 2)]
    files = [save(agent, tmp_path / f"{seed}.th") for seed, agent in enumerate(agents)]
    write_start(scenario, 0, tmp_path / "start.th", ",".join(map(str, files)))
    mean = torch.load(tmp_path / "start.th")
    for name, weights in agents[0].state_dict().items():
        assert torch.allclose(mean[name], (weights + agents[1].state_dict()[name]) / 2)


def test_the_folder_of_another_citys_run_is_refused_and_stays_as_it_is(tmp_path, scenario):
    start = tmp_path / "start.th"
    torch.save(RecurrentPolicy(PolicyForm.of(small_city())).state_dict(), start)
    before = start.read_bytes()
    done = train(tmp_path, scenario)
    assert f"{tmp_path} holds a run of another city; name another folder" in done.stderr
    assert start.read_bytes() == before
    assert left_in(tmp_path) == ["start.th", "town.json"]


def test_seeds_of_training_and_validation_are_none_of_evaluation(scenario):
    problem = CityProblem(scenario, n_validation=100)
    tasks = problem.tasks(Config(episodes=4, repeats=2), 0)
    assert [task.seed for task in tasks] == [TRAINING_SEED + each for each in (0, 0, 1, 1)]
    seeds = [seed for _, seed in problem.validation(Config())]
    assert len(seeds) == 100
    assert 1000 < min(seeds) <= max(seeds) < TRAINING_SEED


def test_rewards_add_up_to_the_delay_that_is_judged(scenario):
    problem = CityProblem(scenario)
    signals = problem.open(problem.tasks(Config(episodes=1, repeats=1, team_share=0.0), 0)[0])
    signals.reset(1)
    assert signals.state().shape == (problem.state_dim,)
    total = 0.0
    while signals.agents:
        _, rewards, *_ = signals.step({})
        total -= 10 * sum(rewards.values())
    metrics = signals.metrics()
    signals.close()
    assert total == pytest.approx(metrics.time_loss_s * metrics.demanded, rel=0.05)


def test_edges_belong_to_the_signal_ahead_and_exits_to_the_one_behind():
    network, _ = import_network(NET_FILE)
    agents, index = agents_of_edges(NET_FILE, network), network_of(network).junctions
    station, mill = index["265580972"].agent_index, index["300839359"].agent_index
    assert agents["west_to_station"] == agents["station_to_west"] == station
    assert agents["station_to_mill"] == mill
    assert Delays(agents, len(index)) is not None


def test_the_policy_begins_with_what_greedy_does(tmp_path, scenario):
    watching = replace(scenario, counts="all")
    write_start(watching, 0, tmp_path / "start.th")
    started = by_policy(watching, 1, tmp_path / "start.th").time_loss_s
    greedy, fixed = (
        CONTROLLERS[each](scenario, 1).time_loss_s for each in ("greedy", "fixed time")
    )
    assert abs(started - greedy) < (fixed - greedy) / 4


def test_a_city_with_more_phases_than_units_starts_from_random_weights(tmp_path, scenario):
    one = scenario.network.junctions[0]
    many = tuple(
        one.model_copy(update={"id": f"a{number}", "agent_index": number}) for number in range(50)
    )
    assert fits(scenario.network)
    city = replace(scenario, network=scenario.network.model_copy(update={"junctions": many}))
    assert not fits(city.network)
    write_start(city, 0, tmp_path / "start.th")
    assert PolicyStep.load(tmp_path / "start.th", network_of(city.network)).form.n_agents == 50
