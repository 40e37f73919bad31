"""The scenarios, how many users there are at each moment, and a system that cannot be loaded."""

import json
import os
import subprocess
import sys

import pytest

from greenwave.client import Addresses
from load_tests.harness.shipped import ROOT
from load_tests.scenarios.scenarios import RISE, RUSH_HOUR, SCENARIOS, users_at
from load_tests.scenarios.target import LoadTestError, Target, find_target
from tests.support.raw_server import closed_port


@pytest.mark.parametrize(("share", "users"), [(0, 20), (0.15, 60), (0.5, 100), (0.85, 60)])
def test_a_rush_hour_rises_stays_and_falls(share, users):
    assert users_at(RUSH_HOUR, 100, share) == users


def test_there_is_always_a_user_until_the_end():
    for points in (RISE, RUSH_HOUR):
        assert {users_at(points, 1, share / 100) for share in range(100)} == {1}
        assert users_at(points, 1, 1.0) is None


@pytest.mark.parametrize("name", SCENARIOS)
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


def test_where_nothing_runs_that_is_said():
    url = closed_port()
    with pytest.raises(LoadTestError, match=f"No system is ready at {url}"):
        Target(Addresses.at(url), "operator", "secret", list).token()


def test_credentials_are_those_of_the_instance_and_the_address_if_none_is_given(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    for name in ("JWT_AUTH_USERNAME", "JWT_AUTH_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(LoadTestError, match=f"{tmp_path}/ports-23000 has none"):
        find_target(23000, None)
    monkeypatch.setenv("JWT_AUTH_USERNAME", "somebody")
    monkeypatch.setenv("JWT_AUTH_PASSWORD", "secret")
    found = find_target(23000, None)
    at = Addresses.of_edge("127.0.0.1", port_base=23000)
    assert (found.addresses, found.username, found.password) == (at, "somebody", "secret")
    elsewhere = "http://elsewhere:8000"
    assert find_target(23000, elsewhere).addresses == Addresses.at(elsewhere)
    with pytest.raises(LoadTestError, match="'localhost:8000'"):
        find_target(None, "localhost:8000")
