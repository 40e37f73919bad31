"""Collisions, hard braking and classes of vehicles are in the tables and on the page."""

import csv

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from lab.sim.controllers import CONTROLS
from serve_app.cli import main as cli
from tests.made_nets import made_net

ROUTES = """<routes>
  <vType id="line5" vClass="bus"/>
  <vType id="reckless" tau="0.05" minGap="0.1" decel="3" apparentDecel="9" emergencyDecel="5"
    sigma="1" speedFactor="1.5" actionStepLength="2"/>
  <flow id="a" type="reckless" from="left0A0" to="B0right0" begin="0" end="150" number="60"/>
  <flow id="b" type="line5" from="bottom1B0" to="B1top1" begin="0" end="150" number="9"/>
</routes>"""


def test_they_are_in_the_tables_and_on_the_page(tmp_path):
    net, routes = made_net(tmp_path / "made.net.xml"), tmp_path / "a.rou.xml"
    routes.write_text(ROUTES)
    network, output = tmp_path / "town.json", tmp_path / "evaluation"
    assert cli.main(["network", "import", str(net), f"--output={network}"]) == 0
    evaluate = "lab", "evaluate", f"--network={network}", f"--net={net}", f"--routes={routes}"
    assert cli.main([*evaluate, "--end=300", "--seeds=1", f"--output={output}"]) == 0
    tables = {}
    for name in ("runs", "classes"):
        with (output / f"{name}.csv").open() as file:
            tables[name] = list(csv.DictReader(file))
    assert all(int(row["emergency_braking"]) > 0 for row in tables["runs"])
    assert all(int(row["teleports"]) >= int(row["collisions"]) > 0 for row in tables["runs"])
    assert [(row["controller"], row["class"], row["vehicles"]) for row in tables["classes"]] == [
        (controller, *kind)
        for controller in CONTROLS
        for kind in (("bus", "9"), ("passenger", "60"))
    ]
    delays = [float(row["delay_s"]) * int(row["vehicles"]) for row in tables["classes"][:2]]
    assert sum(delays) / 69 == pytest.approx(float(tables["runs"][0]["delay_s"]), abs=0.01)
    page = (output / "evaluation.html").read_text()
    assert "<th>bus (9), s</th><th>passenger (60), s</th>" in page
    assert "<th>collisions</th><th>teleports</th><th>emergency braking</th>" in page
