"""Training: it ends with a policy that is served, and continues where it stopped killed."""

import csv
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from lab.net.importing import import_network
from lab.sim.controllers import CONTROLS, policy_control, run
from lab.sim.crossings import crossings_scenario
from lab.sim.daily_demand import HOUR_S
from lab.sim.environment import Environment
from lab.sim.metrics import Metrics
from lab.sim.scenario import InvalidScenarioError, Scenario
from lab.sim.shipped import MORNING_RUSH_S, shipped_demand, shipped_scenario
from lab.train.greedy import greedy_policy
from lab.train.mappo import Config
from lab.train.planner import Planner
from lab.train.policy_network import RecurrentPolicy, new_policy, read_policy, write_policy
from lab.train.rewards import Rewards, agents_of_edges, state_dim
from lab.train.run import best_of
from lab.train.traffic import OneScenario
from models.networks.file import network_as_json, read_network_file
from models.networks.network import network_of
from models.networks.shipped import NET_FILE, SHIPPED
from models.policy.form import PolicyForm
from models.policy.training_record import TrainingRecord, read_record, write_record
from tests.cities import agent_for, save, small_city
from tests.documentation import ROOT
from tests.sim.test_environment import MILL, STATION, scenario_with

pytestmark = pytest.mark.timeout(600)

EVERY_SECOND = [
    f'<trip id="{second}_{start}" depart="{second}" from="{start}" to="{end}"/>'
    for second in range(3600, 3900, 4)
    for start, end in (("west_to_station", "park_to_east"), ("north_to_market", "center_to_south"))
]


@pytest.fixture
def scenario(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    given: Scenario | None = getattr(request, "param", None)
    return given or scenario_with(tmp_path_factory.mktemp("town"), "".join(EVERY_SECOND))


def command(folder: Path, scenario: Scenario, *options: str) -> list[str]:
    network = folder / "town.json"
    network.write_text(network_as_json(scenario.network))
    files = [f"--network={network}", f"--net={scenario.net}"]
    files += [f"--routes={scenario.demand.files[0]}", f"--output={folder}"]
    size = ["--begin=3600", "--end=4200", "--episodes=2", "--validate-every=2"]
    size += ["--imitation-rounds=0"]
    return [sys.executable, "-m", "lab.train", *files, *size, *options]


def train(folder: Path, scenario: Scenario, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, scenario, *options), capture_output=True, text=True)


def test_a_run_leaves_a_policy_that_serves_and_longer_runs_are_other_runs(tmp_path, scenario):
    done = train(tmp_path, scenario, "--iterations=1")
    assert done.returncode == 0, done.stderr
    assert f"--policy {tmp_path / 'best.th'}" in done.stderr + done.stdout
    assert driven(scenario, tmp_path / "best.th").demanded == len(EVERY_SECOND)
    assert [row["iteration"] for row in read_curve(tmp_path)] == ["0", "1"]
    again = train(tmp_path, scenario, "--iterations=2")
    assert "made with iterations 1, not 2" in again.stderr
    assert again.returncode == 1
    assert "Traceback" not in again.stderr


def test_a_run_begins_with_the_imitation_of_the_planner(tmp_path, scenario):
    rounds = "--imitation-rounds=1"
    done = train(tmp_path, scenario, "--safety", "--counts=all", "--iterations=0", rounds)
    assert done.returncode == 0, done.stderr
    assert read_record(tmp_path / "best.th") == TrainingRecord(True, "all")
    behind = replace(scenario, counts="all", guarded=True)
    untaught = tmp_path / "untaught.th"
    write_policy(new_policy(network_of(scenario.network)), untaught)
    write_record(untaught, TrainingRecord(True, "all"))
    taught = driven(behind, tmp_path / "best.th")
    assert taught.delay_s < driven(behind, untaught).delay_s
    with pytest.raises(InvalidScenarioError, match="trained with --counts all"):
        driven(scenario, tmp_path / "best.th")


@pytest.mark.parametrize("guarded", [True, False])
def test_the_planner_loses_less_time_than_greedy_with_and_without_the_layer(guarded):
    scenario = replace(shipped_scenario(shipped_demand(12 * HOUR_S, 600)), guarded=guarded)
    planned, greedy = (run(scenario, 1, each) for each in (Planner, CONTROLS["greedy"](scenario)))
    assert planned.demanded == greedy.demanded
    assert planned.delay_s < 0.9 * greedy.delay_s


def test_the_planner_serves_who_waits_at_a_crossing(monkeypatch):
    scenario = crossings_scenario(shipped_demand(21 * HOUR_S, 600), walkers_per_hour=400)
    seen = run(scenario, 1, Planner)
    monkeypatch.setattr(Environment, "pedestrian_calls", lambda environment: {})
    unseen = run(scenario, 1, Planner)
    assert seen.walks == unseen.walks > 0
    assert seen.walk_delay_s < 0.9 * unseen.walk_delay_s


@pytest.mark.parametrize(("duration", "green"), [(1, 1), (600, 0)], ids=["free", "full"])
def test_the_planner_gives_no_green_into_a_full_lane(tmp_path, duration, green):
    ways = [("station_south_to_station", "station_to_west", second) for second in range(6)]
    ways += [("west_to_station", "park_to_east", second) for second in range(42, 52)]
    trips = [
        f'<trip id="{at}" depart="{3600 + second}" from="{start}" to="{end}"/>'
        for at, (start, end, second) in enumerate(ways)
    ]
    trips[:0] = [
        '<trip id="stands" depart="3600" from="station_to_west" to="station_to_west" departLane="1"'
        f' departPos="8"><stop lane="station_to_west_1" endPos="8" duration="{duration}"/></trip>'
    ]
    with Environment(scenario_with(tmp_path, "".join(trips))) as environment:
        environment.reset(1)
        while environment.time_s < 3660:
            observations = environment.step({STATION: 0})
        assert Planner(environment).act(observations)[STATION] == green


def test_without_intergreen_times_no_policy_is_trained_behind_the_safety_layer(tmp_path, scenario):
    junctions = [
        each.model_copy(update={"intergreen_s": None}) for each in scenario.network.junctions
    ]
    network = scenario.network.model_copy(update={"junctions": junctions})
    done = train(tmp_path, replace(scenario, network=network), "--safety")
    assert done.returncode == 1
    assert done.stderr.strip().endswith("has no intergreen_s.")
    assert left_in(tmp_path) == ["town.json"]


def driven(scenario: Scenario, weights: Path) -> Metrics:
    return run(scenario, 1, policy_control(scenario, weights))


def left_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--iterations=0", "with no round of imitation and no iteration, nothing is trained"),
        ("--imitation-rounds=-1", "imitation_rounds -1 is negative"),
        ("--start=shy", "shy: no such file"),
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


@pytest.mark.parametrize("agent_id", [True, False], ids=["with one-hot", "without"])
def test_any_policy_of_the_city_is_a_start_that_does_what_it_did(tmp_path, scenario, agent_id):
    agent = save(agent_for(network_of(scenario.network), agent_id), tmp_path / "agent.th")
    write_policy(read_policy(agent, network_of(scenario.network)), tmp_path / "start.th")
    assert driven(scenario, tmp_path / "start.th") == driven(scenario, agent)


def test_the_folder_of_another_citys_run_is_refused_and_stays_as_it_is(tmp_path, scenario):
    start = tmp_path / "start.th"
    torch.save(RecurrentPolicy(PolicyForm.of(small_city())).state_dict(), start)
    before = start.read_bytes()
    done = train(tmp_path, scenario)
    assert f"{tmp_path} holds a run of another city; name another folder" in done.stderr
    assert start.read_bytes() == before
    assert left_in(tmp_path) == ["start.th", "town.json"]


@pytest.mark.parametrize(
    "scenario",
    [shipped_scenario(shipped_demand(12 * HOUR_S)), None],
    ids=["shipped network", "a user's city"],
    indirect=True,
)
def test_rewards_add_up_to_the_delay_that_is_judged(scenario):
    total = 0.0
    with Environment(scenario) as environment:
        environment.reset(1)
        rewards = Rewards(environment, team_share=0.0)
        while not environment.is_over:
            environment.step(dict.fromkeys(environment.phases, int(total) % 2))
            total -= scenario.decision_s * rewards.look().sum()
        metrics = environment.metrics()
    assert total == pytest.approx(metrics.delay_s * metrics.demanded, rel=0.05)


FIVE_MINUTES = shipped_scenario(shipped_demand(MORNING_RUSH_S, 300))


def rewards_of(steps: int, team_share: float) -> np.ndarray:
    """Keep all first phases; returns the rewards (steps, agents)."""
    with Environment(FIVE_MINUTES) as environment:
        environment.reset(1)
        rewards, seen = Rewards(environment, team_share), []
        for _ in range(steps):
            environment.step({})
            seen.append(rewards.look())
        return np.array(seen)


def test_the_team_share_adds_the_others_rewards():
    alone, together = (rewards_of(10, share) for share in (0.0, 0.5))
    np.testing.assert_allclose(together, alone + 0.5 * (alone.sum(1, keepdims=True) - alone))


def test_the_state_shows_the_critic_the_whole_network():
    with Environment(FIVE_MINUTES) as environment:
        observed, rewards = environment.reset(1), Rewards(environment, 0.0)
        empty = rewards.state(observed)
        for _ in range(40):
            observed = environment.step({})
            rewards.look()
        state = rewards.state(observed)
    assert state.shape == empty.shape == (state_dim(FIVE_MINUTES),)
    sizes = sum(each.obs_size for each in SHIPPED.junctions.values())
    np.testing.assert_array_equal(state[:sizes], np.concatenate(list(observed.values())))
    assert (state[sizes:-3] > empty[sizes:-3]).sum() > 10  # and vehicles that no detector sees


def test_edges_belong_to_the_signal_ahead_and_exits_to_the_one_behind():
    network, _ = import_network(NET_FILE)
    agents, index = agents_of_edges(NET_FILE, network), network_of(network).junctions
    station, mill = index[STATION].agent_index, index[MILL].agent_index
    assert agents["west_to_station"] == agents["station_to_west"] == station
    assert agents["station_to_mill"] == mill


def test_the_policy_begins_with_what_greedy_does(tmp_path, scenario):
    watching = replace(scenario, counts="all")
    assert train(tmp_path, watching, "--iterations=1", "--counts=all").returncode == 0
    started = driven(watching, tmp_path / "start.th").delay_s
    greedy, fixed = (
        run(scenario, 1, CONTROLS[each](scenario)).delay_s for each in ("greedy", "fixed time")
    )
    assert abs(started - greedy) < (fixed - greedy) / 4


def test_mappo_continues_from_what_validates_better(scenario):
    traffic, network = OneScenario(scenario, n_validation=1), network_of(scenario.network)
    shy, greedy = new_policy(network), greedy_policy(scenario.network)
    for policies in ((shy, greedy), (greedy, shy)):
        assert best_of(policies, Config(), traffic, workers=1) is greedy


SMALL = "--iterations=3", "--validation-seeds=1"


def read_curve(folder: Path) -> list[dict[str, str]]:
    with (folder / "log.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if k != "wall_s"} for row in csv.DictReader(file)]


def test_a_killed_run_goes_on_to_the_same_curve_with_another_number_of_workers(tmp_path, scenario):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    done = train(whole, scenario, *SMALL, "--workers=2")
    assert done.returncode == 0
    assert "may be chance: that takes several --validation-seeds." in done.stdout
    curve = read_curve(whole)
    assert [row["iteration"] for row in curve] == ["0", "1", "2", "3"]
    assert [bool(row["validation"]) for row in curve] == [True, False, True, True]
    assert all(float(row["time_loss_s"]) > 0 for row in curve[:3])
    assert float(curve[2]["kl"]) > 0
    again = command(killed, scenario, *SMALL, "--workers=1")
    process = subprocess.Popen(again, stderr=subprocess.DEVNULL)
    while not (killed / "checkpoint.pt").exists():
        assert process.poll() is None
        time.sleep(0.02)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive  # workers end with the trainer
    subprocess.run(again, check=True, capture_output=True)
    assert read_curve(killed) == curve
