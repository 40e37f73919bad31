"""The controlled junctions of one road network, and the sizes that follow from them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from models.networks.file import read_network_file
from models.networks.form import NetworkFile

LONGEST_CALL_S = 120.0  # of a pedestrian's wait that an observation tells from longer ones
_DIGEST_BYTES = 8

Observation = Sequence[float] | NDArray[np.float32]


@dataclass(frozen=True)
class Junction:
    """One controlled junction.

    Attributes:
        id: identifier in requests.
        agent_index: position of the junction's one-hot bit in the policy's input.
        n_phases: number of green phases, and so of available actions.
        capacities: vehicles that can queue on each incoming lane, in the observation's order.
        n_calls: observed pedestrian crossings, which follow the lanes.
    """

    id: str
    agent_index: int
    n_phases: int
    capacities: tuple[float, ...]
    n_calls: int = 0

    @property
    def n_lanes(self) -> int:
        return len(self.capacities)

    @property
    def scales(self) -> tuple[float, ...]:
        """Vehicles of each lane, and seconds of each call, that are 1 in the observation."""
        return self.capacities + (LONGEST_CALL_S,) * self.n_calls

    @property
    def obs_size(self) -> int:
        """Length of the junction's observation: phase one-hot, min-green flag, queues, calls."""
        return self.n_phases + 1 + self.n_lanes + self.n_calls

    def normalized(self, values: Sequence[float]) -> list[float]:
        """Replace each lane's vehicle count by the filled share of the lane, at most 1.

        Args:
            values: (obs_size,) phase one-hot and min-green flag, a count per lane, and the seconds
                of each pedestrian call.

        Raises:
            ValueError: a count is negative.
        """
        head = self.n_phases + 1
        counts = values[head:]
        if min(counts) < 0:
            raise ValueError("vehicle counts must not be negative")
        shares = zip(counts, self.scales, strict=True)
        return [*values[:head], *(min(1.0, count / full) for count, full in shares)]


@dataclass(frozen=True)
class Network:
    """Junctions by id, in the order of their agent indices.

    Attributes:
        name: for people.
        file: what else is known; None for a network that was made without a file.
    """

    name: str
    junctions: Mapping[str, Junction]
    file: NetworkFile | None = field(default=None, compare=False, repr=False)

    @cached_property
    def n_agents(self) -> int:
        return len(self.junctions)

    @cached_property
    def n_actions(self) -> int:
        """Actions of the policy: the most phases that a junction has."""
        return max(each.n_phases for each in self.junctions.values())

    @cached_property
    def max_obs(self) -> int:
        """Length of the longest observation, to which all are padded with zeros."""
        return max(each.obs_size for each in self.junctions.values())

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.junctions)

    @cached_property
    def unavailable(self) -> NDArray[np.bool_]:
        """(n_agents, n_actions) True for actions that a junction does not have."""
        n_phases = np.array([each.n_phases for each in self.junctions.values()])
        return np.arange(self.n_actions) >= n_phases[:, None]

    @cached_property
    def obs_sizes(self) -> NDArray[np.intp]:
        """(n_agents,) length of each junction's own observation."""
        return np.array([each.obs_size for each in self.junctions.values()])

    def avail_actions(self, junction_id: str) -> tuple[int, ...]:
        """Return the action mask: 1 for each action that the junction has a phase for."""
        n_phases = self.junctions[junction_id].n_phases
        return tuple(int(action < n_phases) for action in range(self.n_actions))

    @cached_property
    def digest(self) -> str:
        """What hidden states belong to: ids, indices, phases, lanes, calls; no names or drawing."""
        said = repr(
            [
                (j.id, j.agent_index, j.n_phases, j.n_lanes, *([j.n_calls] if j.n_calls else []))
                for j in self.junctions.values()
            ]
        )
        return hashlib.blake2b(said.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def network_of(file: NetworkFile) -> Network:
    """Return what serving needs of a network file."""
    junctions = {
        each.id: Junction(
            each.id,
            each.agent_index,
            len(each.phases),
            tuple(lane.capacity for lane in each.lanes),
            len(each.crossings) if file.pedestrian_calls else 0,
        )
        for each in sorted(file.junctions, key=lambda entry: entry.agent_index)
    }
    return Network(file.name, junctions, file)


def lane_names(network: Network) -> dict[str, tuple[str, ...]]:
    """Return the ids of each junction's lanes; numbers from 0 on where no file names them."""
    if network.file is None:
        return {
            each.id: tuple(map(str, range(each.n_lanes))) for each in network.junctions.values()
        }
    return {each.id: tuple(lane.id for lane in each.lanes) for each in network.file.junctions}


def read_network(path: str | os.PathLike[str]) -> Network:
    """Read a network file.

    Raises:
        InvalidNetworkError: it cannot be read or is no network.
    """
    return network_of(read_network_file(path))
