"""Write the layout as plain XML and build the network: ``python -m models.shipped.build``."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

from models.shipped import NETWORK_FILE
from models.shipped.layout import EDGES, MOVEMENTS, NODES, SPEED_LIMIT, Movement
from models.signal_states import YELLOW_S, yellow_state

GREEN_SECONDS = 27  # of the network's own program, which runs when nothing controls the signals


def build_network(target: Path = NETWORK_FILE) -> None:
    """Write the plain XML (nodes, edges, connections, signals) beside the target, then build it.

    Raises:
        ModuleNotFoundError: SUMO is not installed.
        subprocess.CalledProcessError: netconvert refused the input; its output says why.
    """
    import sumo

    name = target.name.removesuffix(".net.xml")
    parts = {
        "node-files": ("nod", _nodes()),
        "edge-files": ("edg", _edges()),
        "connection-files": ("con", _connections()),
        "tllogic-files": ("tll", _signal_programs()),
    }
    # Paths relative to the folder and no header: the built file is the same on every machine.
    command = [str(Path(sumo.SUMO_HOME, "bin", "netconvert")), f"--output-file={target.name}"]
    command += ["--no-turnarounds=true", "--offset.disable-normalization=true"]
    for option, (suffix, root) in parts.items():
        path = target.with_name(f"{name}.{suffix}.xml")
        ET.indent(root, "    ")
        path.write_text(ET.tostring(root, encoding="unicode") + "\n")
        command.append(f"--{option}={path.name}")
    subprocess.run(command, cwd=target.parent, check=True, timeout=60)
    target.write_text(re.sub(r"<!--.*?-->\s*", "", target.read_text(), count=1, flags=re.DOTALL))


def _nodes() -> ET.Element:
    root = ET.Element("nodes")
    for node in NODES.values():
        kind = "traffic_light" if node.signalised else "dead_end"
        ET.SubElement(root, "node", id=node.id, x=f"{node.x}", y=f"{node.y}", type=kind)
    return root


def _edges() -> ET.Element:
    root = ET.Element("edges")
    for edge in EDGES:
        ends = {"from": NODES[edge.start].id, "to": NODES[edge.end].id}
        size = {"numLanes": f"{edge.lanes}", "speed": f"{SPEED_LIMIT}"}
        ET.SubElement(root, "edge", {"id": edge.id, **ends, **size})
    return root


def _connections() -> ET.Element:
    root = ET.Element("connections")
    for movement in MOVEMENTS:
        for connection in _connections_of(movement):
            ET.SubElement(root, "connection", connection)
    return root


def _signal_programs() -> ET.Element:
    root = ET.Element("tlLogics")
    controlled = []
    for name, node in NODES.items():
        if not node.signalised:
            continue
        movements = [movement for movement in MOVEMENTS if movement.via == name]
        links = [link for movement in movements for link in _connections_of(movement)]
        greens = [movement.greens for movement in movements for _ in movement.lanes]
        phases = ["".join(states) for states in zip(*greens, strict=True)]
        logic = ET.SubElement(root, "tlLogic", id=node.id, type="static", programID="0", offset="0")
        for phase, following in zip(phases, phases[1:] + phases[:1], strict=True):
            ET.SubElement(logic, "phase", duration=f"{GREEN_SECONDS}", state=phase)
            yellow = yellow_state(phase, following)
            ET.SubElement(logic, "phase", duration=f"{YELLOW_S}", state=yellow)
        controlled += [
            {**link, "tl": node.id, "linkIndex": f"{index}"} for index, link in enumerate(links)
        ]
    for link in controlled:
        ET.SubElement(root, "connection", link)
    return root


def _connections_of(movement: Movement) -> list[dict[str, str]]:
    edges = {
        "from": f"{movement.start}_to_{movement.via}",
        "to": f"{movement.via}_to_{movement.end}",
    }
    return [
        {**edges, "fromLane": f"{from_lane}", "toLane": f"{to_lane}"}
        for from_lane, to_lane in movement.lanes
    ]


if __name__ == "__main__":
    build_network()
