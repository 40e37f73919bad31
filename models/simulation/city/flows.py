"""How many vehicles drive from each edge to the next, counted in one run of the net as it is."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import libsumo

from models.simulation.city.scenario import CityScenario
from models.simulation.city.sumo_run import command_of, telling

HOUR_S = 3600


def flows_of(scenario: CityScenario, seed: int) -> dict[tuple[str, str], float]:
    """Return vehicles per hour by pair of edges; those that wait or drive on at the end count."""
    counts: Counter[tuple[str, str]] = Counter()
    with TemporaryDirectory(prefix="greenwave-") as folder:
        routes = Path(folder, "driven.xml")
        command = command_of(scenario, seed, Path(folder, "trips.xml"))
        options = [f"--vehroute-output={routes}", "--vehroute-output.write-unfinished"]
        with telling(scenario):
            libsumo.start([*command, *options])
            libsumo.simulationStep(scenario.end_s)
            libsumo.close()
        for _, element in ET.iterparse(routes):
            if element.tag == "vehicle":
                driven = element.findall(".//route")[-1:]
                for route in driven:
                    counts.update(pairwise(route.attrib["edges"].split()))
                element.clear()
    hours = (scenario.end_s - scenario.begin_s) / HOUR_S
    return {pair: count / hours for pair, count in counts.items()}
