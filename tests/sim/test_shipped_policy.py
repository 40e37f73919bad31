"""The shipped network: its net is built from the plain XML, and its policy is worth serving."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import sumo

from lab.evaluate.__main__ import REPORTED
from lab.evaluate.cases import POLICY
from lab.evaluate.jobs import longest_reds, measured, plan_jobs, run_job
from lab.evaluate.runs import read_runs
from lab.sim import crossings
from lab.sim.controllers import CONTROLS, policy_control, run
from lab.sim.daily_demand import HOUR_S
from lab.sim.shipped import shipped_demand, shipped_scenario
from lab.sim.simulator import Change
from lab.sim.webster import FixedTime
from models.networks.file import read_network_file
from models.networks.network import network_of
from models.networks.shipped import FOLDER, NET_FILE, SHIPPED
from models.policy.form import SHIPPED_POLICY, SHIPPED_SAFE_POLICY
from models.policy.training_record import read_record
from models.signals.safety import Limits, read_layers


@pytest.mark.parametrize("net", [NET_FILE, crossings.NET_FILE], ids=lambda net: net.name)
def test_netconvert_builds_the_net_of_the_plain_xml(net, tmp_path):
    for path in FOLDER.glob("greenwave*"):
        if path != net:
            shutil.copy(path, tmp_path)
    configuration = net.name.replace(".net.xml", ".netccfg")
    command = [str(Path(sumo.SUMO_HOME, "bin", "netconvert")), "-c", configuration]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    built = (tmp_path / net.name).read_text()
    head = re.compile(r"<!--.*?-->\s*", re.DOTALL)  # says when it was built, and where
    assert head.sub("", built, count=1) == net.read_text()


@pytest.mark.parametrize("hour", [7.5, 17])
def test_policy_loses_and_waits_less_than_fixed_time(hour):
    demand = shipped_demand(int(hour * HOUR_S), 900)
    scenario = shipped_scenario(demand)
    policy = run(scenario, 77, policy_control(scenario, SHIPPED_POLICY))
    fixed = run(scenario, 77, lambda environment: FixedTime(demand, SHIPPED.ids, 5))
    assert policy.demanded == fixed.demanded
    assert policy.delay_s < 0.9 * fixed.delay_s
    assert policy.waiting_s < 0.9 * fixed.waiting_s


def test_the_policy_that_counts_all_vehicles_loses_less_than_delay_based_control():
    weights = SHIPPED_POLICY.with_name("agent-all.th")
    scenario = replace(shipped_scenario(shipped_demand(int(7.5 * HOUR_S), 900)), counts="all")
    policy = run(scenario, 77, policy_control(scenario, weights))
    delay_based = run(scenario, 77, CONTROLS["delay-based"](scenario))
    assert read_record(weights).counts == "all"
    assert policy.demanded == delay_based.demanded
    assert policy.delay_s < delay_based.delay_s


@pytest.mark.parametrize("control", ["actuated", "delay-based"])
def test_a_published_run_is_made_again_to_the_digit(control):
    name, traffic = f"{control} behind the safety layer", "rush hour, 7:30"
    jobs = plan_jobs(POLICY, range(1, 2), SHIPPED_POLICY)
    (job,) = (each for each in jobs if (each.case.name, each.traffic.name) == (name, traffic))
    published = {run.key: run for run in read_runs(REPORTED[POLICY].file)}[job.key]
    assert run_job(job)["delay_s"] == published.delay_s


def test_behind_the_safety_layer_the_policy_trained_there_loses_less_than_the_other_one():
    counts = read_record(SHIPPED_SAFE_POLICY).counts
    assert counts == "all"
    scenario = replace(shipped_scenario(shipped_demand(12 * HOUR_S, 900)), guarded=True)
    other = run(scenario, 77, policy_control(scenario, SHIPPED_POLICY))
    scenario = replace(scenario, counts=counts)
    trained = run(scenario, 77, policy_control(scenario, SHIPPED_SAFE_POLICY))
    assert trained.demanded == other.demanded
    assert trained.delay_s < other.delay_s


def test_the_network_with_crossings_has_the_junctions_and_observations_of_the_shipped_one():
    file = read_network_file(crossings.NETWORK_FILE)
    network = network_of(file)
    assert network.digest == SHIPPED.digest
    layers = read_layers(Limits(max_walk_wait_s=crossings.MAX_WALK_WAIT_S), network)
    with_crossings = [each for each in file.junctions if each.crossings]
    assert len(with_crossings) == 2
    for junction in with_crossings:
        assert set(layers[junction.id].max_red_s) == {crossings.MAX_WALK_WAIT_S}
        assert min(layers[junction.id].min_green_s) >= 7


def test_the_policy_serves_pedestrians_in_time_behind_the_safety_layer():
    scenario = crossings.crossings_scenario(shipped_demand(12 * HOUR_S, 600))
    run = measured(scenario, 1, policy_control(scenario, SHIPPED_POLICY), "policy")
    assert network_of(scenario.network).digest == SHIPPED.digest
    assert run.walks > 20
    assert 0 < run.walk_red_s <= crossings.MAX_WALK_WAIT_S


def test_the_longest_red_of_a_crossing_lasts_from_its_last_green_to_the_next():
    scenario = crossings.crossings_scenario(shipped_demand(12 * HOUR_S, 600))
    junction = next(each for each in scenario.network.junctions if each.crossings)
    place = next(at for at, link in junction.placed_links if link.crossing)
    size, begin_s = junction.n_places, scenario.begin_s
    walk, stop = ("".join(one if at == place else "r" for at in range(size)) for one in "Gr")
    times = (0, walk), (20, stop), (70, walk), (590, stop)
    changes = [Change(begin_s + second, junction.id, state) for second, state in times]
    one = scenario.network.model_copy(update={"junctions": (junction,)})
    reds = list(longest_reds(replace(scenario, network=one), changes, scenario.end_s))
    assert reds[0] == 50
    assert set(reds[1:]) == {600}
