"""The shipped network with crossings: pedestrians walk at two of its five junctions.

Its net is built from the sources of the shipped one by ``greenwave-crossings.netccfg``. Junctions,
phases and lanes are the same in number and order, so the shipped policy and the services take its
network file as they take the shipped one.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import sumo

from lab.net.importing import import_network
from lab.sim.daily_demand import HOUR_S, DailyDemand
from lab.sim.scenario import Scenario
from lab.sim.shipped import shipped_scenario
from models.networks.file import read_network_file
from models.networks.form import WALK_S, JunctionEntry, Lane, NetworkFile
from models.networks.shipped import FOLDER, SHIPPED

CONFIGURATION = "greenwave-crossings.netccfg"
NET_FILE = FOLDER / "greenwave-crossings.net.xml"
NETWORK_FILE = FOLDER / "greenwave-crossings.json"

MAX_WALK_WAIT_S = 90.0  # longest red of a phase with crossings
WALKERS_PER_HOUR = 50.0  # of each walk in each direction, at full demand
NEAR_M = 30  # where walks begin and end, from the junction
WALKS = {  # by junction as roads name it: each walk crosses one arm
    "station": (
        ("west_to_station", "station_to_west"),
        ("mill_to_station", "station_to_mill"),
        ("west_to_station", "station_to_mill"),
        ("mill_to_station", "station_to_west"),
    ),
    "park": (
        ("east_to_park", "park_to_east"),
        ("east_to_park", "park_north_to_park"),
        ("park_to_east", "park_to_park_south"),
    ),
}


def build_net(folder: Path = FOLDER) -> None:
    """Let netconvert build the net in a folder with the sources, without the date of its head.

    Raises:
        subprocess.CalledProcessError: netconvert refuses them.
    """
    netconvert = str(Path(sumo.SUMO_HOME, "bin", "netconvert"))
    command = [netconvert, f"--configuration-file={CONFIGURATION}"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    net = folder / NET_FILE.name
    head = re.compile(r"<!--.*?-->\s*", re.DOTALL)  # when it was built, and where
    net.write_text(head.sub("", net.read_text(), count=1))


def network_with_crossings(net: Path = NET_FILE) -> NetworkFile:
    """Return the network of the net, with the names and detector limits of the shipped one."""
    if SHIPPED.file is None:
        raise ValueError("the shipped network was read without its file")
    imported, _ = import_network(net)
    found = {each.id: each for each in imported.junctions}
    return NetworkFile(
        name="greenwave with crossings",
        junctions=tuple(_merged(each, found[each.id]) for each in SHIPPED.file.junctions),
    )


def _merged(shipped: JunctionEntry, found: JunctionEntry) -> JunctionEntry:
    phases = tuple(
        own.model_copy(update={"state": walked.state})
        for own, walked in zip(shipped.phases, found.phases, strict=True)
    )
    lanes = tuple(
        Lane(id=walked.id, capacity=walked.capacity, shape=walked.shape, detector=own.detector)
        for own, walked in zip(shipped.lanes, found.lanes, strict=True)
    )
    links = tuple(
        each.model_copy(update={"walk_s": WALK_S} if each.crossing else {})
        for each in found.links or ()
    )
    return found.model_copy(
        update={
            "agent_index": shipped.agent_index,
            "name": shipped.name,
            "phases": phases,
            "lanes": lanes,
            "links": links,
        }
    )


def crossings_scenario(demand: DailyDemand, walkers_per_hour: float = WALKERS_PER_HOUR) -> Scenario:
    """Return the scenario of a demand behind the safety layer, with pedestrians.

    Args:
        walkers_per_hour: people on each walk in each direction at full demand, who begin by a
            Poisson process; 0 for crossings that are not used.
    """
    level, _ = demand.course.at((demand.begin_s + demand.end_s) / 2)
    flows = _flows(demand, demand.scale * level * walkers_per_hour) if walkers_per_hour else ()
    return replace(
        shipped_scenario(demand, elements=tuple(flows)),
        network=read_network_file(NETWORK_FILE),
        net=NET_FILE,
        guarded=True,
        max_walk_wait_s=MAX_WALK_WAIT_S,
    )


def _flows(demand: DailyDemand, per_hour: float) -> Iterator[str]:
    for junction, walks in WALKS.items():
        for start, end in (way for walk in walks for way in (walk, walk[::-1])):
            leave, reach = (
                -NEAR_M if edge.endswith(f"_to_{junction}") else NEAR_M for edge in (start, end)
            )
            yield (
                f'<personFlow id="{start}-{end}" begin="{demand.begin_s}" end="{demand.end_s}"'
                f' period="exp({per_hour / HOUR_S:.6f})"><walk from="{start}" to="{end}"'
                f' departPos="{leave}" arrivalPos="{reach}"/></personFlow>'
            )
