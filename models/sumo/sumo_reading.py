"""Reads a SUMO network in one pass, without SUMO."""

from __future__ import annotations

import gzip
import os
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from models.networks.file import InvalidNetworkError
from models.networks.form import Point
from models.sumo.sumo import Program, SumoLane, SumoLink, SumoNet

_GZIP = b"\x1f\x8b"


def read_sumo_net(path: str | os.PathLike[str]) -> SumoNet:
    """Read a ``.net.xml`` or ``.net.xml.gz``.

    Raises:
        InvalidNetworkError: it cannot be read or is no SUMO network; one sentence.
    """
    net = SumoNet()
    try:
        with _opened(Path(path)) as file:
            for element in _elements(file):
                _READERS.get(element.tag, _ignore)(net, element)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidNetworkError(f"{path}: cannot be read: {reason}") from error
    except (ET.ParseError, EOFError, zlib.error, KeyError, ValueError) as error:
        raise InvalidNetworkError(f"{path} is no SUMO network: {_reason(error)}") from error
    return net


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    with path.open("rb") as file:
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        if packed:
            with gzip.open(file) as content:
                yield content
        else:
            yield file


def _elements(file: IO[bytes] | gzip.GzipFile) -> Iterator[ET.Element]:
    """Yield the net's own elements, complete, and forget each; its size does not matter then."""
    depth, root = 0, None
    for event, element in ET.iterparse(file, ("start", "end")):
        if event == "start":
            depth += 1
            if root is None:
                root = element
                if element.tag != "net":
                    raise ValueError(f"it begins with <{element.tag}>, not with <net>")
        else:
            depth -= 1
            if depth == 1:
                yield element
                root.clear()  # type: ignore[union-attr]


def _read_edge(net: SumoNet, edge: ET.Element) -> None:
    name = edge.attrib["id"]
    if edge.get("function") == "crossing":
        net.crossings.add(name)
    for lane in edge.iterfind("lane"):
        known = SumoLane(
            lane.attrib["id"], name, float(lane.attrib["length"]), _points(lane.get("shape", ""))
        )
        net.lanes[known.id] = known


def _read_junction(net: SumoNet, node: ET.Element) -> None:
    net.places[node.attrib["id"]] = float(node.get("x", 0)), float(node.get("y", 0))


def _read_connection(net: SumoNet, element: ET.Element) -> None:
    link = element.attrib
    lane, via = f"{link['from']}_{link.get('fromLane', 0)}", link.get("via")
    if link["from"].startswith(":") and via is not None:
        net.onwards[lane] = via
    to = link["to"]
    to_lane = f"{to}_{link.get('toLane', 0)}"
    if not link["from"].startswith(":") and link.get("dir") != "t":
        net.ahead[lane].add(to_lane)
        if "tl" not in link:
            net.behind[to_lane].add(lane)
    if "tl" in link:
        walked = to in net.crossings
        known = SumoLink(
            int(link["linkIndex"]),
            lane,
            to_lane,
            to,
            link.get("dir", "s"),
            via,
            walked,
        )
        net.links[link["tl"]].append(known)


def _read_program(net: SumoNet, logic: ET.Element) -> None:
    program = Program(
        logic.get("programID", "0"),
        logic.get("type", "static"),
        logic.get("offset", "0"),
        tuple(dict(phase.attrib) for phase in logic.iterfind("phase")),
    )
    net.programs[logic.attrib["id"]].append(program)


def _ignore(net: SumoNet, element: ET.Element) -> None:
    pass


_READERS = {
    "edge": _read_edge,
    "junction": _read_junction,
    "connection": _read_connection,
    "tlLogic": _read_program,
}


def _points(text: str) -> tuple[Point, ...]:
    pairs = (point.split(",") for point in text.split())
    return tuple((float(x), float(y)) for x, y, *_ in pairs)


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"an element has no {error.args[0]!r}"
    return str(error)
