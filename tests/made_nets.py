"""Small made-up cities, by SUMO's netgenerate."""

import subprocess
from pathlib import Path

import sumo

SIGNALS = "--default-junction-type=traffic_light"
GRID = (
    *("--grid", "--grid.number=2", "--grid.attach-length=150"),
    *("--default.lanenumber=2", "--no-turnarounds", SIGNALS),
)


def made_net(path: Path, *options: str) -> Path:
    """Make a net: by default four signals, with two ways in and out each, such as left0A0."""
    command = [str(Path(sumo.SUMO_HOME, "bin", "netgenerate")), f"--output-file={path}"]
    ran = [*command, *(options or GRID)]
    subprocess.run(ran, check=True, capture_output=True, timeout=60)
    return path
