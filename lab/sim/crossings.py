"""The shipped network with crossings: pedestrians walk at two of its five junctions.

Its net is built from the sources of the shipped one by ``netconvert -c
greenwave-crossings.netccfg``. Junctions, phases and lanes are the same in number and order, so the
shipped policy and the services take its network file as they take the shipped one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lab.sim.daily_demand import HOUR_S, DailyDemand
from lab.sim.scenario import Scenario
from lab.sim.shipped import shipped_scenario
from models.networks.file import read_network_file
from models.networks.shipped import FOLDER

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
