"""The scenarios, and how many users there are at each moment."""

import json
import os
import re
import subprocess
import sys

import pytest

from load_tests.harness.shipped import ROOT
from load_tests.scenarios.scenarios import RISE, RUSH_HOUR, SCENARIOS, users_at


@pytest.mark.parametrize(("share", "users"), [(0, 20), (0.15, 60), (0.5, 100), (0.85, 60)])
def test_a_rush_hour_rises_stays_and_falls(share, users):
    assert users_at(RUSH_HOUR, 100, share) == users


def test_there_is_always_a_user_until_the_end():
    for points in (RISE, RUSH_HOUR):
        assert {users_at(points, 1, share / 100) for share in range(100)} == {1}
        assert users_at(points, 1, 1.0) is None


def test_every_user_class_exists():
    classes = {
        *re.findall(r"^class (\w+)", (ROOT / "load_tests/scenarios/users.py").read_text(), re.M)
    }
    assert [name for each in SCENARIOS.values() for name in {*each.user_classes} - classes] == []


@pytest.mark.parametrize("name", ["controllers", "soak"])
def test_locust_runs_the_users_and_the_defaults_of_the_scenario(name):
    code = (
        "import json, sys; from types import SimpleNamespace\n"
        "from locust.argument_parser import get_parser\n"
        "from locust.util.load_locustfile import load_locustfile\n"
        "users, shapes = load_locustfile(sys.argv[1])\n"
        "options = get_parser(default_config_files=[]).parse_args([])\n"
        "print(json.dumps([list(users), options.num_users, options.run_time]))\n"
    )
    env = os.environ | {"LOAD_SCENARIO": name}
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT / "load_tests/locustfile.py")],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    classes, n_users, seconds = json.loads(done.stdout.splitlines()[-1])
    scenario = SCENARIOS[name]
    assert set(classes) == set(scenario.user_classes)
    assert (n_users, seconds) == (scenario.users, scenario.minutes * 60)
