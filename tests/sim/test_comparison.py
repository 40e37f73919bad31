"""``greenwave lab evaluate`` on a made-up town: every run once, one page, faults in a sentence."""

import csv
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import sumo

from lab.evaluate.comparison import OWN_CHANGES, Comparison
from lab.sim.controllers import CONTROLS, GUARDED, run
from lab.sim.metrics import sum_up
from lab.sim.programs import Programs
from lab.sim.scenario import RouteFiles
from lab.sim.simulator import TRIPS
from lab.sim.trips import read_trips
from models.networks.network import network_of
from serve_app.cli import main as cli
from tests.cities import agent_for, save, small_city
from tests.sim.towns import END_S, Town


def words(town: Town, output: Path, *more: str, **files: Path) -> list[str]:
    named = {"network": town.network, "net": town.net, "routes": town.routes} | files
    options = [f"--{name}={path}" for name, path in named.items()]
    return ["lab", "evaluate", *options, f"--end={END_S}", "--seeds=2", f"--output={output}", *more]


def test_every_run_is_made_once_and_the_page_tells_of_all(town, tmp_path, capsys):
    output = tmp_path / "out"
    policy = save(agent_for(network_of(town.scenario.network)), tmp_path / "agent.th")
    assert cli.main(words(town, output, f"--policy={policy}")) == 0
    assert f"{output / 'evaluation.html'} compares" in capsys.readouterr().err.replace("\n", "")
    page = (output / "evaluation.html").read_text()
    controllers = [*CONTROLS, "policy"]
    assert all(f"<td>{each}</td>" in page for each in controllers)
    with (output / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["controller"], row["seed"]) for row in rows] == [
        (each, seed) for each in controllers for seed in "12"
    ]
    assert {row["demanded"] for row in rows} == {"180"}
    assert all(float(row["co2_kg"]) > 0 for row in rows)
    with (output / "approaches.csv").open() as file:
        approaches = list(csv.DictReader(file))
    assert {row["road"] for row in approaches if row["controller"] == "policy"} == {
        lane.id.rpartition("_")[0]
        for each in town.scenario.network.junctions
        for lane in each.lanes
    }
    assert "The worst approach is " in page
    made = {path: path.stat().st_mtime_ns for path in (output / "runs").iterdir()}
    assert len(made) == 18

    (gone := min(made)).unlink()
    save(agent_for(network_of(town.scenario.network), seed=1), policy)
    assert cli.main(words(town, output, f"--policy={policy}")) == 0
    again = {path: path.stat().st_mtime_ns for path in (output / "runs").iterdir()}
    assert again.keys() > made.keys()
    assert {path for path in again if again[path] != made.get(path)} == {
        gone,
        *(again.keys() - made.keys()),
    }
    assert len(again) == 20


def test_runs_are_exported_and_sumo_repeats_them(town, tmp_path):
    folder, policy = tmp_path / "signals", tmp_path / "agent.th"
    save(agent_for(network_of(town.scenario.network)), policy)
    more = f"--policy={policy}", "--seeds=1", "--first-seed=3", f"--export={folder}"
    assert cli.main(words(town, tmp_path / "out", *more, "--begin=30")) == 0
    phases = {each.id: [p.state for p in each.phases] for each in town.scenario.network.junctions}
    with (tmp_path / "out" / "runs.csv").open() as file:
        delays = {row["controller"]: float(row["delay_s"]) for row in csv.DictReader(file)}
    assert {path.name for path in folder.iterdir()} == {each.replace(" ", "_") for each in delays}
    for name, delay_s in delays.items():
        exported = folder / name.replace(" ", "_")
        with (exported / "states.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert {row["junction"] for row in rows} == set(phases)
        first = [row for row in rows if row["junction"] == "A0"]
        times = [float(row["time_s"]) for row in first]
        assert times == sorted(times)
        assert times[0] == 30
        assert {row["state"] for row in first if "y" not in row["state"]} <= set(phases["A0"])
        command = str(Path(sumo.SUMO_HOME, "bin", "sumo")), "-c", str(exported / "run.sumocfg")
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        assert sum_up(read_trips(exported / TRIPS), {}).delay_s == pytest.approx(delay_s, abs=6e-4)
    made_again = replace(town.scenario, additional=(folder / "Webster/additional.xml",), begin_s=30)
    webster = CONTROLS["Webster"](replace(town.scenario, begin_s=30))
    assert run(made_again, 1, Programs()) == run(replace(town.scenario, begin_s=30), 1, webster)


def test_controllers_are_also_compared_behind_the_safety_layer(town, tmp_path):
    output = tmp_path / "out"
    assert cli.main(words(town, output, "--seeds=1", "--safety", "--workers=1")) == 0
    with (output / "runs.csv").open() as file:
        delays = {row["controller"]: float(row["delay_s"]) for row in csv.DictReader(file)}
    guarded = {each for each in delays if each.endswith(GUARDED)}
    assert {each.removesuffix(GUARDED) for each in guarded} == CONTROLS.keys() - set(OWN_CHANGES)
    assert delays["actuated"] != delays[f"actuated{GUARDED}"]
    assert "Delay behind the safety layer</h2>" in (output / "evaluation.html").read_text()


def test_other_rules_or_other_traffic_are_other_runs(town, tmp_path):
    routes = tmp_path / "less.rou.xml"
    routes.write_text(town.routes.read_text().replace("B1top1", "B0right0"))
    scenarios = [
        town.scenario,
        replace(town.scenario, yellow_s=4),
        replace(town.scenario, counts="all"),
        replace(town.scenario, demand=RouteFiles((routes,))),
    ]
    digests = {Comparison(each, None, range(1)).same["city"] for each in scenarios}
    assert len(digests) == 4


def test_files_that_do_not_fit_are_a_sentence_and_nothing_is_written(town, tmp_path, capsys):
    other = save(agent_for(small_city()), tmp_path / "other.th")
    names = (
        "bad.net.xml",
        "mute.net.xml",
        "short.net.xml",
        "bad.json",
        "bad.rou.xml",
        "lost.rou.xml",
    )
    net, mute, short, file, routes, lost = (tmp_path / name for name in names)
    for path, to in {routes: "B0right0", lost: "nowhere"}.items():
        edges = f'<route edges="left0A0 {to}"/>'
        path.write_text(f'<routes><vehicle id="a" depart="400">{edges}</vehicle></routes>')
    net.write_text(town.net.read_text().replace('<tlLogic id="A0"', '<tlLogic id="Z0"'))
    logic = re.compile(r'<tlLogic id="A0".*?</tlLogic>', re.DOTALL)
    without = {mute: r' state="[^"]*"', short: r'(?<=state=")..'}
    for path, part in without.items():
        less = logic.sub(lambda found: re.sub(part, "", found[0]), town.net.read_text())  # noqa: B023
        path.write_text(less)
    content = json.loads(town.network.read_text())
    for junction in content["junctions"]:
        del junction["intergreen_s"]
        for phase in junction["phases"]:
            del phase["state"]
    file.write_text(json.dumps(content))
    bad = {
        "fc1.weight has shape (128, 10), expected (128, 15)": {"policy": other},
        "no such file": {"policy": tmp_path / "none.th"},
        "No connection between edge 'left0A0' and edge 'B0right0'": {"routes": routes},
        "for vehicle 'a' is not known. The route can not be build": {"routes": lost},
        "nowhere.xml is not there": {"routes": tmp_path / "nowhere.xml"},
        "bad.net.xml has no signal A0, which a town has": {"net": net},
        "mute.net.xml: the program of signal A0 has phases without states": {"net": mute},
        "short.net.xml: signal A0 has 14 links, in a town it has 16": {"net": short},
        "without states of phases cannot be driven": {"network": file},
    }
    for said, files in bad.items():
        assert cli.main(words(town, tmp_path / "out", **files)) == 1
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
        assert not (tmp_path / "out").exists()
    assert cli.main(words(town, tmp_path / "out", "--seeds=0")) == 1
    assert "--seeds and --workers must be at least 1." in capsys.readouterr().err
