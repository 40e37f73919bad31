"""The signal of one junction, as its network file describes it: what guarding it needs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from models.networks.form import WALK_S, JunctionEntry
from models.networks.network import Network

NO_TIMES: Mapping[int, Any] = MappingProxyType({})
Matrix = tuple[tuple[int | None, ...], ...]


class Signal(NamedTuple):
    """One junction's signal.

    Attributes:
        phases: state string of each green phase.
        intergreen: seconds from the end of green at a letter of the states (row) to the beginning
            at another (column), None where the two do not meet.
        conflicts: pairs of letters whose vehicles can meet, as the junction's network has them;
            None if the file does not contain them.
        walk_s: least seconds of green at each letter of a pedestrian crossing.
        yellow_s: seconds of yellow at each letter that has not YELLOW_S.
        red_yellow_s: seconds of red and yellow before a green of vehicles.
    """

    phases: tuple[str, ...]
    intergreen: Matrix
    conflicts: tuple[tuple[int, int], ...] | None = None
    walk_s: Mapping[int, float] = NO_TIMES
    yellow_s: Mapping[int, int] = NO_TIMES
    red_yellow_s: int = 0


def read_signals(network: Network) -> Mapping[str, Signal]:
    """Return the signal of each junction.

    Raises:
        ValueError: the network file lacks the states or the intergreen times of a junction, or has
            states of other letters than ``r``, ``g``, ``G`` and ``s``. A right turn on red (``s``)
            is red here: whether it may be driven depends on what only the driver sees.
    """
    if network.file is None:
        raise ValueError(f"the network {network.name} was read without its signals")
    red_yellow_s = network.file.red_yellow_s
    return {
        each.id: _signal(each, network.name)._replace(red_yellow_s=red_yellow_s)
        for each in network.file.junctions
    }


def _signal(junction: JunctionEntry, network: str) -> Signal:
    where = f"junction {junction.id} of the network {network}"
    states = tuple(
        phase.state.replace("s", "r") for phase in junction.phases if phase.state is not None
    )
    if not states:
        raise ValueError(f"{where} has no states of its phases")
    if junction.intergreen_s is None:
        raise ValueError(f"{where} has no intergreen_s")
    if strange := set("".join(states)) - set("rgG"):
        raise ValueError(
            f"{where} has {min(strange)!r} in a state, which the safety layer does not know"
        )
    walk_s = {
        place: WALK_S if link.walk_s is None else link.walk_s
        for place, link in junction.placed_links
        if link.crossing is not None
    }
    yellow_s: dict[int, int] = {}
    for place, link in junction.placed_links:
        if link.yellow_s is not None:
            yellow_s[place] = max(link.yellow_s, yellow_s.get(place, 0))
    return Signal(states, junction.intergreen_s, junction.conflicts, walk_s, yellow_s)
