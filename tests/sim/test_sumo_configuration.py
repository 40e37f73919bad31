"""A user's ``.sumocfg`` runs as SUMO runs it; the evaluation replaces only what it needs."""

import csv
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import sumo

from lab.net.importing import import_network
from lab.sim.configuration import read_sumocfg
from lab.sim.controllers import CONTROLS, run
from lab.sim.metrics import sum_up
from lab.sim.scenario import RouteFiles, Scenario
from lab.sim.trips import read_trips
from serve_app.cli import main as cli
from tests.made_nets import made_net
from tests.sim.walked_town import END_S, walked_scenario

TRAFFIC = """<additional>
  <vType id="slow" maxSpeed="8"/>
  <flow id="a" type="slow" from="left0A0" to="A1left1" begin="54000" end="54300" number="40"/>
  <flow id="b" from="bottom0A0" to="A1top0" begin="54000" end="54300" number="40"/>
</additional>"""
CONFIG = """<configuration>
  <input><net-file value="made.net.xml"/><additional-files value="traffic.add.xml"/></input>
  <time><begin value="15:0:0"/><end value="15:10:0"/><step-length value="0.5"/></time>
  <processing><scale value="1.5"/><time-to-teleport value="-1"/></processing>
  <output><summary-output value="summary.xml"/><tripinfo-output value="trips.xml"/>
    <output-prefix value="run_"/><vehroute-output value="routes.xml"/>
    <statistic-output value="statistics.xml"/></output>
</configuration>"""


@pytest.fixture
def config(tmp_path):
    made_net(tmp_path / "made.net.xml")
    (tmp_path / "traffic.add.xml").write_text(TRAFFIC)
    path = tmp_path / "town.sumocfg"
    path.write_text(CONFIG)
    return path


def driven_by_sumo(config: Path, trips: Path) -> float:
    command = str(Path(sumo.SUMO_HOME, "bin", "sumo")), "-c", str(config), "--seed=3"
    outputs = (
        f"--tripinfo-output={trips}",
        *("--tripinfo-output.write-unfinished", "--tripinfo-output.write-undeparted"),
        *("--summary-output=/dev/null", "--output-prefix="),
    )
    subprocess.run([*command, *outputs], check=True, capture_output=True, timeout=60)
    return sum_up(read_trips(trips), {}).delay_s


def test_fixed_time_is_what_sumo_drives_to_the_digit(config, tmp_path):
    files = read_sumocfg(config)
    network, _ = import_network(files.net)
    scenario = Scenario(
        network,
        files.net,
        RouteFiles(files.routes),
        files.begin_s,
        files.end_s,
        additional=files.additional,
        configured=files.configured,
    )
    before = sorted(tmp_path.iterdir())
    driven = run(scenario, 3, CONTROLS["fixed time"](scenario))
    assert CONTROLS["Webster"](scenario)
    assert driven.demanded == 120, "scaled by 1.5"
    assert sorted(tmp_path.iterdir()) == before, "the summary is not written beside the config"
    trips = tmp_path / "trips.xml"
    assert driven.delay_s == driven_by_sumo(config, trips)
    assert ET.parse(trips).getroot().find("tripinfo") is not None


def test_the_page_says_what_is_replaced(config, tmp_path):
    network, output = tmp_path / "town.json", tmp_path / "evaluation"
    assert (
        cli.main(["network", "import", str(tmp_path / "made.net.xml"), f"--output={network}"]) == 0
    )
    evaluate = "lab", "evaluate", f"--network={network}", f"--sumocfg={config}", "--seeds=1"
    assert cli.main([*evaluate, f"--output={output}"]) == 0
    page = (output / "evaluation.html").read_text()
    assert "town.sumocfg, without its options time-to-teleport, summary-output," in page


def test_pedestrians_are_in_the_figures_and_on_the_page(tmp_path):
    walked_scenario(tmp_path)
    files, output = [f"--network={tmp_path}/town.json"], tmp_path / "evaluation"
    files += [f"--net={tmp_path}/town.net.xml", f"--routes={tmp_path}/town.rou.xml"]
    more = f"--end={END_S}", "--seeds=1", f"--output={output}"
    assert cli.main(["lab", "evaluate", *files, *more]) == 0
    with (output / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["walks"] for row in rows} == {"20"}
    for row in rows:
        mean, most, longest = (
            float(row[f"walk_delay{name}_s"]) for name in ("", "_95", "_longest")
        )
        assert 0 < mean <= most <= longest
    worst = {row["controller"]: float(row["walk_delay_longest_s"]) for row in rows}
    assert worst["greedy"] <= worst["fixed time"]
    assert worst["max pressure"] <= worst["fixed time"]
    page = (output / "evaluation.html").read_text()
    assert "<h3>Pedestrians</h3>" in page
    assert "1 of type static" in page
