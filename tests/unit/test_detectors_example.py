"""examples/detectors turns readings into observations of the junction's length."""

import ast
import os
import subprocess
import sys

from models.networks.network import read_network
from tests.documentation import ROOT

FOLDER = ROOT / "examples" / "detectors"


def test_each_interval_becomes_an_observation_in_counts():
    network, intervals = FOLDER / "crossing.json", FOLDER / "intervals.jsonl"
    result = subprocess.run(
        [sys.executable, str(FOLDER / "observe.py"), str(network), str(intervals)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    observations = [ast.literal_eval(line) for line in result.stdout.splitlines()]
    assert len(observations) == len(intervals.read_text().splitlines())
    (junction,) = read_network(network).junctions.values()
    assert {len(each) for each in observations} == {junction.obs_size}
    assert observations[0][:3] == [0, 1, 1], "phase 1, and its minimum green is over"
    assert observations[2][:3] == [1, 0, 0]
    assert observations[-1][-1] >= 1, "a vehicle is present on the side road"
