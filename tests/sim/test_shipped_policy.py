"""The shipped network: its net is built from the plain XML, and its policy is worth serving."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

import sumo

from models.networks.shipped import FOLDER, NET_FILE, SHIPPED
from models.policy.form import SHIPPED_POLICY
from models.simulation.controllers import policy_control, run
from models.simulation.daily_demand import HOUR_S
from models.simulation.fixed_time import FixedTime
from models.simulation.shipped import shipped_demand, shipped_scenario


def test_netconvert_builds_the_net_of_the_plain_xml(tmp_path):
    for path in FOLDER.glob("greenwave.*"):
        if path != NET_FILE:
            shutil.copy(path, tmp_path)
    command = [str(Path(sumo.SUMO_HOME, "bin", "netconvert")), "-c", "greenwave.netccfg"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    built = (tmp_path / NET_FILE.name).read_text()
    head = re.compile(r"<!--.*?-->\s*", re.DOTALL)  # says when it was built, and where
    assert head.sub("", built, count=1) == NET_FILE.read_text()


@pytest.mark.parametrize("hour", [7.5, 17])
def test_policy_loses_and_waits_less_than_fixed_time(hour: float) -> None:
    demand = shipped_demand(int(hour * HOUR_S), 900)
    scenario = shipped_scenario(demand)
    policy = run(scenario, 77, policy_control(scenario, SHIPPED_POLICY))
    fixed = run(scenario, 77, lambda environment: FixedTime(demand, SHIPPED.ids, 5))
    assert policy.demanded == fixed.demanded
    assert policy.time_loss_s < 0.9 * fixed.time_loss_s
    assert policy.waiting_s < 0.9 * fixed.waiting_s
