"""What the demo simulates: the shipped network, or a city in whose outages queues decide."""

import time

import numpy as np
import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from models.networks.form import NetworkFile
from serve_app.cli.demo import drive
from serve_app.cli.main import parser_of
from serve_app.demo.stage import OwnQueues, behind_safety_layer, stage_of

LINKS = [{"lane": "pier_n_0", "to": "out_s"}, {"lane": "pier_e_0", "to": "out_s", "turn": "l"}]
LANES = [{"id": "pier_n_0", "capacity": 10}, {"id": "pier_e_0", "capacity": 20}]
PHASES = [{"state": "Gr"}, {"state": "rG"}]
PIER = {"id": "pier", "agent_index": 0, "phases": PHASES, "lanes": LANES, "links": LINKS}


def test_without_a_network_file_it_is_an_hour_of_the_shipped_network():
    stage = stage_of(parser_of("demo").parse_args(["demo"]))
    assert (stage.scenario.begin_s, stage.scenario.n_decisions) == (27_000, 720)
    early = stage_of(parser_of("demo").parse_args(["demo", "--begin", "6:00", "--seconds", "600"]))
    assert (early.scenario.begin_s, early.scenario.n_decisions) == (21_600, 120)
    everything = stage_of(parser_of("demo").parse_args(["demo", "--counts", "all"]))
    assert (stage.scenario.counts, everything.scenario.counts) == ("standing", "all")
    behind = behind_safety_layer(stage)
    assert (stage.scenario.guarded, behind.scenario.guarded) == (False, True)


def test_a_run_is_no_faster_than_its_speed():
    stage = stage_of(parser_of("demo").parse_args(["demo", "--seconds", "10"]))
    began = time.monotonic()
    drive("fixed time", stage.peer, stage, 1, speed=20)
    assert time.monotonic() - began >= 10 / 20


@pytest.mark.parametrize(("queues", "phase"), [((0.5, 0.2), 0), ((0.5, 0.3), 1)])
def test_without_the_policy_the_lanes_with_more_vehicles_get_green(queues, phase):
    rule = OwnQueues(NetworkFile.model_validate({"name": "harbour", "junctions": [PIER]}))
    call = 1.0  # of a pedestrian, whom the rule does not know
    for calls in ((), (call,)):
        observed = np.array([1, 0, 1, *queues, *calls], np.float32)
        assert rule.act({"pier": observed}) == {"pier": phase}
    assert rule.act({}) == {}
