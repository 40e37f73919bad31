"""Networks that SUMO's own tools make are imported: every lane gets green, and SUMO agrees."""

import subprocess
from pathlib import Path

import pytest
import sumo

from lab.net.importing import import_network
from lab.net.net import read_sumo_net
from models.networks.form import JunctionEntry
from models.networks.network import network_of
from models.signals.monitor import make_monitors
from models.signals.safety import Limits, read_layers
from tests.made_nets import SIGNALS, made_net

GRID = ("--grid", "--grid.number=3", "--default.lanenumber=2")


@pytest.mark.parametrize(
    ("options", "remark"),
    [
        ((*GRID, SIGNALS), ""),
        ((*GRID, SIGNALS, "--tls.group-signals"), ""),
        (
            (*GRID, SIGNALS, "--sidewalks.guess", "--crossings.guess"),
            "has all its greens for longer",
        ),
        ((*GRID, SIGNALS, "--no-internal-links"), "no shapes"),
        ((*GRID, SIGNALS, "--tls.default-type=NEMA"), ""),
        (
            (*GRID, SIGNALS, "--tls.default-type=NEMA", "--no-internal-links"),
            "each phase of its NEMA rings is an action, as the net does not say which movements",
        ),
        (("--rand", "--seed=5", "--rand.iterations=40", SIGNALS), ""),
        (("--spider", SIGNALS), ""),
    ],
    ids=[
        "grid",
        "grouped",
        "walked",
        "no inner lanes",
        "NEMA",
        "NEMA, no conflicts",
        "random",
        "spider",
    ],
)
def test_nets_of_netgenerate_are_imported(tmp_path, options, remark):
    network, notes = import_network(made_net(tmp_path / "made.net.xml", *options))
    assert remark in " ".join(notes.sentences())
    assert [each.agent_index for each in network.junctions] == list(range(len(network.junctions)))
    for junction in network.junctions:
        assert len(junction.phases) > 1
        assert junction.position is not None
        assert len(junction.lanes) > 1


def test_nema_actions_are_pairs_of_phases_without_conflicts(tmp_path):
    options = "--grid", "--grid.number=1", "--grid.attach-length=150", "--default.lanenumber=3"
    nema = "--turn-lanes=1", "--no-turnarounds", "--tls.default-type=NEMA", SIGNALS
    network, notes = import_network(made_net(tmp_path / "made.net.xml", *options, *nema))
    (junction,) = network.junctions
    names = [(phase.name or "").partition(":")[0] for phase in junction.phases]
    assert names == ["1+5", "1+6", "2+5", "2+6", "3+7", "3+8", "4+7", "4+8"]
    assert junction.phases[3].name == "2+6: north and south"
    assert list(notes.sentences()) == []
    monitor = make_monitors(network_of(network))[junction.id]
    for phase in junction.phases:
        monitor.check(phase.state or "")
    assert all(set(letters) & set("Gg") for letters in zip(*states_of(junction), strict=True))


def states_of(junction: JunctionEntry) -> list[str]:
    return [phase.state or "" for phase in junction.phases]


def test_fast_approaches_have_longer_yellows_and_slow_pedestrians_longer_clearances(tmp_path):
    walked = "--grid", "--sidewalks.guess", "--sidewalks.guess.max-speed=30", "--crossings.guess"
    fast = "--crossings.guess.speed-threshold=30", "--default.speed=19.4", SIGNALS
    net = made_net(tmp_path / "made.net.xml", *walked, *fast)
    usual, _ = import_network(net)
    slow, remarks = import_network(net, walks_at=1.0, red_yellow_s=1)
    assert [each.red_yellow_s for each in (usual, slow)] == [0, 1]
    assert {link.yellow_s for each in usual.junctions for link in each.links or ()} == {None, 5}
    for layer in read_layers(Limits(), network_of(usual)).values():
        assert min(map(min, layer.changes_s)) >= 3
        assert layer.changes_s[0][1] >= 5
    assert usual.junctions[0].intergreen_s != slow.junctions[0].intergreen_s
    assert not any("km/h" in sentence for sentence in remarks)


def crossroads(folder: Path, north: int, *options: str) -> Path:
    """Make a signal where four roads of different lengths and lanes meet."""
    ends = {"w": (-200, 0), "e": (170, 0), "n": (10, 140 * north), "s": (-10, -120 * north)}
    nodes = "".join(f'<node id="{name}" x="{x}" y="{y}"/>' for name, (x, y) in ends.items())
    centre = '<node id="c" x="0" y="0" type="traffic_light"/>'
    edges = "".join(
        f'<edge id="{a}{b}" from="{a}" to="{b}" numLanes="{lanes}"/>'
        for name, lanes in zip(ends, (2, 3, 1, 1), strict=True)
        for a, b in ((name, "c"), ("c", name))
    )
    (folder / "a.nod.xml").write_text(f"<nodes>{centre}{nodes}</nodes>")
    (folder / "a.edg.xml").write_text(f"<edges>{edges}</edges>")
    return converted(folder, *options)


def converted(folder: Path, *options: str) -> Path:
    """Make a net of ``a.nod.xml`` and ``a.edg.xml``."""
    path = folder / "made.net.xml"
    files = f"--node-files={folder}/a.nod.xml", f"--edge-files={folder}/a.edg.xml"
    command = str(Path(sumo.SUMO_HOME, "bin", "netconvert")), *files, f"--output-file={path}"
    subprocess.run([*command, *options], check=True, capture_output=True, timeout=60)
    return path


def test_a_left_hand_net_is_the_mirror_of_its_right_hand_twin(tmp_path):
    folders = tmp_path / "left", tmp_path / "right"
    for folder in folders:
        folder.mkdir()
    left, _ = import_network(crossroads(folders[0], 1, "--lefthand"))
    right, _ = import_network(crossroads(folders[1], -1))
    ours, theirs = left.junctions[0], right.junctions[0]
    assert [phase.state for phase in ours.phases] == [phase.state for phase in theirs.phases]
    assert ours.intergreen_s == theirs.intergreen_s
    assert ours.conflicts == theirs.conflicts
    assert [(each.id, each.capacity) for each in ours.lanes] == [
        (each.id, each.capacity) for each in theirs.lanes
    ]


def test_a_level_crossing_is_reported_and_keeps_its_own_control(tmp_path):
    ends = {"w": (-400, 0), "e": (250, 0), "rn": (-150, 300), "rs": (-150, -300), "n": (0, 200)}
    nodes = "".join(f'<node id="{name}" x="{x}" y="{y}"/>' for name, (x, y) in ends.items())
    centres = '<node id="x" x="-150" y="0" type="rail_crossing"/><node id="c" x="0" y="0"/>'
    roads = ("w", "x"), ("x", "c"), ("c", "e"), ("n", "c")
    edges = "".join(
        f'<edge id="{a}{b}" from="{a}" to="{b}"/>'
        for pair in roads
        for a, b in (pair, reversed(pair))
    )
    rails = "".join(
        f'<edge id="{a}{b}" from="{a}" to="{b}" allow="rail"/>'
        for a, b in (("rn", "x"), ("x", "rs"))
    )
    (tmp_path / "a.nod.xml").write_text(f"<nodes>{nodes}{centres}</nodes>")
    (tmp_path / "a.edg.xml").write_text(f"<edges>{edges}{rails}</edges>")
    path = converted(tmp_path, "--tls.set=c", "--no-turnarounds")
    network, notes = import_network(path)
    assert [each.id for each in network.junctions] == ["c"]
    said = "x is left out: it has no program, like all signals of railways."
    assert said in list(notes.sentences())
    assert all(link.index >= 0 for links in read_sumo_net(path).links.values() for link in links)
