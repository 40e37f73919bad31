"""Counts become routes that SUMO drives; what cannot be is a sentence."""

import xml.etree.ElementTree as ET
from collections import Counter
from itertools import pairwise

import pytest

from lab.net.importing import import_network
from lab.sim.controllers import CONTROLS, run
from lab.sim.scenario import RouteFiles, Scenario
from serve_app.cli import main as cli
from tests.made_nets import made_net

ENTRIES = "edge,vehicles_per_hour\nleft0A0,300\nbottom1B0,100.4\n"
LOOP = ("A0A1", "A1B1", "B1B0", "B0A0", "A0A1")
ROUND = "".join(f"{start},{to},1\n" for start, to in pairwise(LOOP))


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return made_net(tmp_path_factory.mktemp("net") / "town.net.xml")


@pytest.fixture
def demand(net, tmp_path):
    """Return what makes routes of tables by option, and reads them: (departure, edges) each."""
    output = tmp_path / "town.rou.xml"

    def make(*options, **tables):
        words = ["lab", "demand", str(net), "--output", str(output), *options]
        for name, text in ({"entries": ENTRIES} | tables).items():
            path = tmp_path / f"{name}.csv"
            path.write_text(text)
            words += [f"--{name}", str(path)]
        code = cli.main(words)
        if code:
            assert not output.exists()
            return code
        return [
            (float(vehicle.attrib["depart"]), route.attrib["edges"].split())
            for vehicle in ET.parse(output).getroot().iter("vehicle")
            for route in vehicle.iter("route")
        ]

    return make


def test_every_counted_vehicle_gets_a_way_out_and_sumo_drives_them(demand, net, tmp_path):
    ways = demand()
    assert Counter(edges[0] for _, edges in ways) == {"left0A0": 300, "bottom1B0": 100}
    ends = Counter(edges[-1] for _, edges in ways)
    assert len(ends) == 8
    assert not any(edges == ["left0A0", "A0left0"] for _, edges in ways)
    network, _ = import_network(net)
    scenario = Scenario(network, net, RouteFiles((tmp_path / "town.rou.xml",)), 0, 3600)
    metrics = run(scenario, 1, CONTROLS["greedy"](scenario))
    assert metrics.demanded == 400
    assert metrics.arrived > 380


def test_exits_are_drawn_by_their_weights(demand):
    ways = demand(exits="edge,weight\nB1right1,3\nB1top1,1\n")
    ends = Counter(edges[-1] for _, edges in ways)
    assert ends.keys() == {"B1right1", "B1top1"}
    assert 2 < ends["B1right1"] / ends["B1top1"] < 4


def test_turning_shares_are_kept_where_they_are_known(demand):
    ways = demand(turns="from,to,share\nleft0A0,A0B0,80\nleft0A0,A0A1,20\n")
    second = Counter(edges[1] for _, edges in ways if edges[0] == "left0A0")
    assert second.keys() == {"A0B0", "A0A1"}
    assert second["A0B0"] / 300 == pytest.approx(0.8, abs=0.07)
    assert len(ways) == 400


def test_a_profile_multiplies_the_counts_of_its_stretches(demand):
    ways = demand("--begin=600", "--end=4200", profile="from_s,factor\n0,1\n2400,0.5\n4200,9\n")
    early = sum(depart < 2400 for depart, _ in ways)
    assert (early, len(ways) - early) == (150 + 50, 75 + 25)


def test_the_same_seed_makes_the_same_file_and_another_makes_another(demand):
    assert demand("--seed=3") == demand("--seed=3") != demand("--seed=4")


def test_a_template_has_every_entry(net, tmp_path, capsys):
    assert cli.main(["lab", "demand", str(net), "--template"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header == "edge,vehicles_per_hour"
    sides = {"left0A0", "left1A1", "right0B0", "right1B1"}
    sides |= {"bottom0A0", "bottom1B0", "top0A1", "top1B1"}
    assert {row.removesuffix(",0") for row in rows} == sides
    table, output = tmp_path / "entries.csv", tmp_path / "town.rou.xml"
    table.write_text("\n".join([header, *(row.replace(",0", ",30") for row in rows)]))
    assert cli.main(["lab", "demand", str(net), f"--entries={table}", f"--output={output}"]) == 0
    assert output.read_text().count("<vehicle ") == 30 * len(rows)


def test_a_city_without_entries_is_told_how_to_get_traffic(tmp_path, capsys):
    ring = made_net(tmp_path / "ring.net.xml", "--grid", "--grid.number=2", "--no-turnarounds")
    assert cli.main(["lab", "demand", str(ring), "--template"]) == 1
    assert "ring.net.xml has no entries" in capsys.readouterr().err
    table, output = tmp_path / "entries.csv", tmp_path / "town.rou.xml"
    table.write_text("edge,vehicles_per_hour\nA0A1,12\n")
    make = ["lab", "demand", str(ring), f"--entries={table}", f"--output={output}"]
    assert cli.main(make) == 1
    assert "has no exits. Name edges where trips end with --exits." in capsys.readouterr().err
    (tmp_path / "exits.csv").write_text("edge,weight\nB1B0,1\n")
    assert cli.main([*make, f"--exits={tmp_path}/exits.csv"]) == 0
    assert output.read_text().count("<vehicle ") == 12


def test_counts_without_a_file_for_them_are_refused(net, capsys):
    assert cli.main(["lab", "demand", str(net)]) == 1
    assert "Name --entries and --output, or ask for a --template" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"entries": "edge,vehicles_per_hour\nnowhere,3\n"}, "no edge nowhere for cars, which an"),
        ({"entries": "edge,vehicles_per_hour\nleft0A0,many\n"}, "row 1: vehicles_per_hour: Input"),
        ({"entries": "edge,vehicles_per_hour\nleft0A0,-1\n"}, "row 1: vehicles_per_hour: Input"),
        ({"entries": "edge,vehicles_per_hour\nleft0A0,1e6\n"}, "than or equal to 20000"),
        ({"entries": "edge,vehicles_per_hour\nleft0A0,0\n"}, "come to no vehicle at all"),
        ({"entries": "edge,cars\nleft0A0,3\n"}, "row 1: vehicles_per_hour: Field required"),
        ({"entries": ""}, "has no rows"),
        ({"entries": "edge,vehicles_per_hour\nleft0A0,0,5\n"}, "row 1 has more cells than"),
        (
            {"entries": "edge,vehicles_per_hour\nA0left0,3\n"},
            "No exit can be reached from entry A0left0",
        ),
        ({"exits": "edge,weight\nB1right1,1\nbottom0A0,1\n"}, "bottom0A0 cannot be reached from"),
        ({"turns": "from,to,share\nleft0A0,B1right1,1\n"}, "has no turn from left0A0 to B1right1."),
        ({"turns": "from,to,share\nx,y,1\n", "exits": "edge,weight\nA0left0,1\n"}, "Say either"),
        ({"turns": f"from,to,share\nleft0A0,A0A1,1\n{ROUND}"}, "SUMO's jtrrouter"),
        ({"profile": "from_s,factor\n60,1\n"}, "The profile begins after 0 s"),
        ({"profile": "from_s,factor\n0,1\n9,2\n5,1\n"}, "must ascend"),
        ({"entries": "edge;vehicles_per_hour\nleft0A0;3\n"}, "columns are separated by ';'"),
        ({"turns": "from,to,share\nleft0A0,A0A1,0\n"}, "All shares from left0A0 are 0"),
        ({"turns": "from,to,share\nleft0A0,A0A1,1\nleft0A0,A0A1,5\n"}, "row 2: left0A0 to A0A1"),
        ({"entries": "edge,vehicles_per_hour\nleft0A0,3\nleft0A0,4\n"}, "left0A0 is there twice"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(demand, capsys, tables, said):
    code = demand(**tables)
    error = capsys.readouterr().err
    assert code == 1
    assert said in error
    assert error.count("\n") == 1


def test_a_net_that_is_none_is_refused_in_a_sentence(tmp_path, capsys):
    table = tmp_path / "entries.csv"
    table.write_text(ENTRIES)
    for net, said in (
        (table, "is not a SUMO network"),
        (tmp_path / "gone.net.xml", "cannot be read: No such file"),
    ):
        output = tmp_path / "town.rou.xml"
        assert (
            cli.main(["lab", "demand", str(net), f"--entries={table}", f"--output={output}"]) == 1
        )
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
        assert not output.exists()
