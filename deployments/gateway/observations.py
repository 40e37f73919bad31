"""Observations: from raw vehicle counts to what the policy was trained on, and made-up ones."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from deployments.gateway.errors import BadRequestError
from models.junctions import SHIPPED
from models.networks.network import Junction, Network

LaneCapacities = Mapping[str, Sequence[float]]


def check_capacities(capacities: LaneCapacities, network: Network = SHIPPED) -> None:
    """Refuse a table that does not have each junction's lanes, and nothing else.

    Raises:
        ValueError: says which junction.
    """
    for unknown in capacities.keys() - network.junctions.keys():
        raise ValueError(f"lane capacities of an unknown junction {unknown!r}")
    for junction in network.junctions.values():
        lanes = capacities.get(junction.id, ())
        if len(lanes) != junction.n_lanes or not all(0 < lane < 1e6 for lane in lanes):
            raise ValueError(
                f"junction {junction.id} needs {junction.n_lanes} lane capacities above zero, "
                f"got {list(lanes)}"
            )


def normalize_counts(
    junction: Junction, values: Sequence[float], capacities: LaneCapacities
) -> list[float]:
    """Replace each lane's vehicle count by the filled share of the lane, at most 1.

    Args:
        values: (obs_size,) phase one-hot and min-green flag, which stay, then a count per lane.

    Raises:
        BadRequestError: not exactly the junction's own length, or a negative count.
    """
    if len(values) != junction.obs_size:
        raise BadRequestError(
            f"observations must have exactly {junction.obs_size} values in the format "
            f"vehicle_counts (received {len(values)})"
        )
    head = junction.n_phases + 1
    counts = values[head:]
    if min(counts) < 0:
        raise BadRequestError("vehicle counts must not be negative")
    shares = zip(counts, capacities[junction.id], strict=True)
    return [*values[:head], *(min(1.0, count / capacity) for count, capacity in shares)]


def random_observation(junction: Junction, source: random.Random) -> list[float]:
    """Make up a plausible (obs_size,) observation: some phase, and queues that are mostly short."""
    phase = source.randrange(junction.n_phases)
    one_hot = [float(phase == each) for each in range(junction.n_phases)]
    may_change = float(source.random() < 0.5)
    queues = [round(source.betavariate(1.2, 4.0), 3) for _ in range(junction.n_lanes)]
    return [*one_hot, may_change, *queues]
