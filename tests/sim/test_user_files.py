"""Whatever a user's SUMO files ask for, all controllers have the same terms and vehicles."""

import argparse
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import psutil
import pytest

from lab.evaluate.checks import check_signals
from lab.evaluate.comparison import Comparison
from lab.net.importing import import_network
from lab.sim.controllers import CONTROLS, run
from lab.sim.metrics import Metrics
from lab.sim.options import add_scenario, scenario_of
from lab.sim.programs import Programs
from lab.sim.scenario import InvalidScenarioError, Scenario
from serve_app.cli import main as cli
from tests.sim.towns import Town
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
END_S, PLANNED = 120, 39  # vehicles that are to depart by then
STEPS = '<phase duration="15" state="{0}"/><phase duration="3.6" state="{1}"/>'
START = """
from pathlib import Path
from lab.net.importing import import_network
from lab.sim import simulator
from lab.sim.controllers import run
from lab.sim.programs import Programs
from lab.sim.scenario import RouteFiles, Scenario

simulator.START_S = 1.0
net, routes = Path("{net}"), RouteFiles((Path("{routes}"),))
run(Scenario(import_network(net)[0], net, routes, 0, 60), 1, Programs())
"""
PARENTS = {
    "program": """
from lab.processes import run_child

run_child(["sh", "-c", "echo $$ > PID; exec sleep 600"])
""",
    "worker": """
import os, time
from lab.processes import make_pool

def work():
    with open("PID", "w") as file:
        print(os.getpid(), file=file)
    time.sleep(600)

if __name__ == "__main__":
    with make_pool(1) as pool:
        pool.submit(work).result()
""",
}


def scenario(town: Town, folder: Path, *options: str, elements: str = "") -> Scenario:
    """Read a configuration with options, and with elements in an additional file."""
    folder.joinpath("more.add.xml").write_text(f"<additional>{elements}</additional>")
    config = folder / "town.sumocfg"
    config.write_text(
        f'<configuration><net-file value="{town.net}"/><route-files value="{town.routes}"/>'
        f'<additional-files value="more.add.xml"/><end value="{END_S}"/>{"".join(options)}'
        "</configuration>"
    )
    parser = argparse.ArgumentParser()
    add_scenario(parser)
    named = parser.parse_args([f"--network={town.network}", f"--sumocfg={config}"])
    return scenario_of(named)


def driven(scenario: Scenario, controller: str = "fixed time") -> Metrics:
    return run(scenario, 1, CONTROLS[controller](scenario))


def test_outputs_of_the_users_files_change_no_figure_and_overwrite_nothing(town, tmp_path):
    options = (
        *('<human-readable-time value="true"/>', '<output-suffix value="_x"/>'),
        *('<output.format value="csv"/>', '<output-prefix value="mine_"/>'),
        *('<tripinfo-output value="trips.xml"/>', '<device.tripinfo.probability value="0.1"/>'),
        *('<save-state.times value="10"/>', '<log value="mine.log"/>', '<precision value="0"/>'),
        *('<device.ssm.probability value="1"/>', '<fcd-output value="fcd.xml"/>'),
        *('<emissions.volumetric-fuel value="true"/>', '<remote-port value="26813"/>'),
    )
    elements = (
        '<edgeData id="d" file="edges.xml"/><laneData id="e" file="greenwave.trips.xml.gz"/>'
        f'<inductionLoop id="l" lane="left0A0_0" pos="5" period="60" file="{tmp_path}/loop.xml"/>'
        '<vType id="watched"><param key="has.ssm.device" value="true"/></vType>'
    )
    named = "edges.xml", "loop.xml", "trips.xml", "fcd.xml"
    for name in named:
        (tmp_path / name).write_text("mine")
    watched = scenario(town, tmp_path, *options, elements=elements)
    before = sorted(tmp_path.iterdir())
    assert driven(watched) == driven(scenario(town, tmp_path))
    assert sorted(tmp_path.iterdir()) == before
    assert {(tmp_path / name).read_text() for name in named} == {"mine"}


def test_vehicles_that_sumo_would_skip_count_with_their_wait(town, tmp_path):
    crowd = '<flow id="f" begin="0" end="60" number="200" from="left0A0" to="B0right0"/>'
    plain = driven(scenario(town, tmp_path, elements=crowd))
    skipping = scenario(town, tmp_path, '<max-depart-delay value="5"/>', elements=crowd)
    assert driven(skipping) == plain
    assert plain.demanded == 200 + PLANNED


def test_vehicles_without_a_report_of_their_trip_are_refused(town, tmp_path):
    hidden = '<vType id="DEFAULT_VEHTYPE"><param key="has.tripinfo.device" value="false"/></vType>'
    with pytest.raises(InvalidScenarioError, match=r"trips of 0 of 36 vehicles: .* has.tripinfo"):
        driven(scenario(town, tmp_path, elements=hidden))


def test_a_waut_that_would_end_the_programs_compared_is_named(town, tmp_path):
    waut = (
        '<WAUT id="nights" refTime="0" startProg="0"/>'
        '<wautJunction wautID="nights" junctionID="A0"/>'
    )
    with pytest.raises(InvalidScenarioError, match="The WAUT nights of SUMO's files switches"):
        scenario(town, tmp_path, elements=waut)


def test_all_controllers_start_from_the_programs_that_sumo_runs(town, tmp_path):
    states = [phase.state for phase in town.scenario.network.junctions[0].phases]
    steps = "".join(STEPS.format(each, re.sub("[Gg]", "y", each or "")) for each in states)
    steps += f'<phase duration="0.5" state="{"r" * len(states[0] or "")}"/>'
    night = f'<tlLogic id="A0" type="static" programID="greenwave" offset="7">{steps}</tlLogic>'
    moved = scenario(town, tmp_path, elements=night + '<tlLogic id="A1" programID="0" offset="9"/>')
    for name in ("Webster", "actuated", "delay-based"):
        made = CONTROLS[name](moved)
        assert isinstance(made, Programs)
        logics = {each.get("id"): each for each in map(ET.fromstring, made.elements)}
        assert [logics[each].get("offset") for each in ("A0", "A1", "B0")] == ["7", "9", "0"]
        assert logics["A0"].get("programID") == "greenwave.0", "an exported program may be there"
        assert [each.get("duration") for each in logics["A0"]][-2:] == ["3.6", "0.5"]
        assert driven(moved, name).demanded == PLANNED
    imported, _ = import_network(town.net, additional=moved.additional)
    assert [phase.state for phase in imported.junctions[0].phases] == states


def test_results_are_made_anew_when_a_file_or_an_option_that_matters_has_changed(town, tmp_path):
    def city(*options: str) -> str:
        included = scenario(town, tmp_path, *options, elements='<include href="in.xml"/>')
        return Comparison(included, None, range(1, 2)).same["city"]

    (tmp_path / "in.xml").write_text("<additional/>")
    first = city()
    assert city('<summary-output value="s.xml"/>') == first
    assert city('<scale value="2"/>') != first
    (tmp_path / "in.xml").write_text('<additional><vType id="a"/></additional>')
    assert city() != first


def test_what_sumo_refuses_to_read_is_a_sentence_with_its_reason(town, tmp_path):
    elements = '<tlLogic id="A0" programID="night" offset="0"/>'
    with pytest.raises(InvalidScenarioError, match=r"cannot drive .*: Error: Attribute 'type' is"):
        driven(scenario(town, tmp_path, elements=elements))


def test_a_configuration_is_imported_with_the_programs_of_its_files(town, tmp_path, capsys):
    dark = scenario(town, tmp_path, elements='<tlLogic id="A0" programID="off"/>')
    with pytest.raises(InvalidScenarioError, match="switch signal A0 off"):
        check_signals(dark)
    output = tmp_path / "town.json"
    assert cli.main(["network", "import", f"{tmp_path}/town.sumocfg", f"--output={output}"]) == 0
    assert "A0 has the programs 0, off; off is taken." in capsys.readouterr().err


def test_a_start_that_takes_too_long_ends_the_process(town, tmp_path):
    os.mkfifo(tmp_path / "endless.xml")
    routes = tmp_path / "in.rou.xml"
    routes.write_text('<routes><include href="endless.xml"/></routes>')
    command = [sys.executable, "-c", START.format(net=town.net, routes=routes)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert ran.returncode == 1
    assert "Timeout (0:00:01)!" in ran.stderr
    assert "simulator.py" in ran.stderr


@pytest.mark.parametrize("kind", PARENTS)
def test_no_child_outlives_a_parent_that_is_killed(tmp_path, kind):
    script, child = tmp_path / "parent.py", tmp_path / "pid"
    script.write_text(PARENTS[kind].replace("PID", str(child)))
    with subprocess.Popen([sys.executable, script], cwd=ROOT, env=ENVIRONMENT) as parent:
        until(lambda: child.exists() and child.read_text().endswith("\n"))
        parent.kill()
    until(lambda: not is_alive(int(child.read_text())))


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
