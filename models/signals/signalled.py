"""What has to be known of a network's signals before they can be guarded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from models.networks.form import JunctionEntry
from models.networks.network import Network
from models.networks.shipped import is_shipped
from models.signals.crossing import read_crossings
from models.signals.intergreen import Matrix, intergreen_matrix


class Signal(NamedTuple):
    """One junction's signal.

    Attributes:
        phases: state string of each green phase.
        intergreen: seconds from the end of green at a letter of the states (row) to the beginning
            at another (column), None where the two do not meet.
    """

    phases: tuple[str, ...]
    intergreen: Matrix


def read_signals(network: Network) -> Mapping[str, Signal]:
    """Return the signal of each junction.

    Of a network file they are what the file says; of the shipped network, which has none, they are
    reckoned from the shapes of its ways.

    Raises:
        ValueError: the file says no states or no intergreen times of a junction, or has states of
            other letters than ``r``, ``g`` and ``G``.
    """
    if network.file is None:
        if not is_shipped(network):
            raise ValueError(f"the network {network.name} was read without its signals")
        return {
            name: Signal(crossing.phases, intergreen_matrix(crossing.ways))
            for name, crossing in read_crossings().items()
        }
    return {each.id: _signal(each, network.name) for each in network.file.junctions}


def _signal(junction: JunctionEntry, network: str) -> Signal:
    where = f"junction {junction.id} of the network {network}"
    states = tuple(phase.state for phase in junction.phases if phase.state is not None)
    if not states:
        raise ValueError(f"{where} has no states of its phases")
    if junction.intergreen_s is None:
        raise ValueError(f"{where} has no intergreen_s")
    if strange := set("".join(states)) - set("rgG"):
        raise ValueError(f"{where} has {min(strange)!r} in a state, which nobody can guard")
    return Signal(states, junction.intergreen_s)
