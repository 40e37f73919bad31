"""Networks that SUMO's own tools make are imported: every lane gets green, and SUMO agrees."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("sumo", reason="SUMO is not installed")

import sumo

from models.sumo.importing import import_network


def made(folder: Path, *options: str) -> Path:
    path = folder / "made.net.xml"
    command = [str(Path(sumo.SUMO_HOME, "bin", "netgenerate")), f"--output-file={path}"]
    subprocess.run([*command, *options], check=True, capture_output=True, timeout=60)
    return path


GRID = ("--grid", "--grid.number=3", "--default.lanenumber=2")
SIGNALS = "--default-junction-type=traffic_light"


@pytest.mark.parametrize(
    ("options", "remark"),
    [
        ((*GRID, SIGNALS), ""),
        ((*GRID, SIGNALS, "--tls.group-signals"), "share a letter"),
        ((*GRID, SIGNALS, "--sidewalks.guess", "--crossings.guess"), "pedestrian crossings"),
        ((*GRID, SIGNALS, "--no-internal-links"), "no shapes"),
        (("--rand", "--seed=5", "--rand.iterations=40", SIGNALS), ""),
        (("--spider", SIGNALS), ""),
    ],
    ids=["grid", "grouped", "walked", "no inner lanes", "random", "spider"],
)
def test_nets_of_netgenerate_are_imported(tmp_path, options, remark):
    network, notes = import_network(made(tmp_path, *options))
    assert remark in " ".join(notes.sentences())
    assert [each.agent_index for each in network.junctions] == list(range(len(network.junctions)))
    for junction in network.junctions:
        assert len(junction.phases) > 1
        assert junction.position is not None
        assert len(junction.lanes) > 1


def test_a_net_without_signals_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no signals"):
        import_network(made(tmp_path, *GRID))
