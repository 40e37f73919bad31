from pathlib import Path

import pytest

from lab.sim.scenario import RouteFiles, Scenario
from lab.train.traffic import OneScenario
from models.networks.shipped import NET_FILE, SHIPPED_FILE


@pytest.fixture
def city(tmp_path: Path) -> OneScenario:
    routes = tmp_path / "town.rou.xml"
    routes.write_text("<routes/>")
    scenario = Scenario(SHIPPED_FILE, NET_FILE, RouteFiles((routes,)), 0, 3600)
    return OneScenario(scenario, n_validation=100)
