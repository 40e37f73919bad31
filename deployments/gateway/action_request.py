"""Reads the body of POST /traffic/action, in the order and with the messages of the contract."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np
from pydantic_core import from_json

from deployments.gateway.errors import BadRequestError
from deployments.gateway.observations import LaneCapacities, normalize_counts
from deployments.gateway.shown import parse_shown
from models.junctions import SHIPPED
from models.networks.network import Network
from models.signals.safety import Shown

logger = logging.getLogger("ray.serve")

FLOAT32_MAX = float(np.finfo(np.float32).max)
MAX_SIMULATION_TIME_S = 10**9  # some thirty years
NORMALIZED, VEHICLE_COUNTS = FORMATS = ("normalized", "vehicle_counts")


class ActionQuery(NamedTuple):
    """A valid request: a known junction, and as many finite values as the policy may see.

    Attributes:
        simulation_time_s: of the client's day, from its midnight on; None for the clock on the
            wall.
        shown: by the junction now, where the safety layer asks for it.
    """

    junction_id: str
    obs: list[float]
    simulation_time_s: float | None = None
    shown: Shown | None = None


def parse_json_object(body: bytes) -> dict[str, Any]:
    """Return the members of a JSON object; no members for any other JSON value.

    Raises:
        BadRequestError: not JSON in UTF-8, or nested too deep.
    """
    try:
        value = from_json(body)
    except ValueError:
        raise BadRequestError("Malformed JSON request body") from None
    return value if isinstance(value, dict) else {}


def parse_action_request(
    body: bytes, capacities: LaneCapacities, safely: bool = False, network: Network = SHIPPED
) -> ActionQuery:
    """Validate a body and bring its observations into the policy's form.

    Args:
        safely: whether it has to say what the junction shows.

    Raises:
        BadRequestError: with the message of the first rule that is broken.
    """
    fields = parse_json_object(body)
    junction_id = fields.get("junctionId")
    if not isinstance(junction_id, str) or not junction_id.strip():
        raise BadRequestError("junctionId is required")
    observations = fields.get("observations")
    if observations is None or observations in ([], "", {}):
        raise BadRequestError("observations is required")
    junction = network.junctions.get(junction_id)
    if junction is None:
        raise BadRequestError(f"Unknown junctionId '{junction_id[:100]}'")
    obs = _finite_values(observations, network.max_obs)
    if _format(fields) == VEHICLE_COUNTS:
        obs = normalize_counts(junction, obs, capacities)
    if "metadata" in fields:
        logger.info("Junction %s, metadata %.200r", junction_id, fields["metadata"])
    simulation_time_s = _simulation_time_s(fields.get("simulationTime"))
    shown = parse_shown(junction, fields.get("shown")) if safely else None
    return ActionQuery(junction_id, obs, simulation_time_s, shown)


def _simulation_time_s(value: object) -> float | None:
    if value is None:
        return None
    if type(value) not in (float, int) or not 0 <= value <= MAX_SIMULATION_TIME_S:  # type: ignore[operator]
        raise BadRequestError(
            f"simulationTime must be a number of seconds from 0 to {MAX_SIMULATION_TIME_S}"
        )
    return float(value)  # type: ignore[arg-type]


def _finite_values(observations: object, most: int) -> list[float]:
    if not isinstance(observations, list):
        raise BadRequestError("observations must be finite numbers")
    if len(observations) > most:
        raise BadRequestError(
            f"observations exceeds max size of {most} (received {len(observations)})"
        )
    for value in observations:
        # Not isinstance: a boolean is an int. The bound also refuses NaN, infinities, huge ints.
        if type(value) not in (float, int) or not -FLOAT32_MAX <= value <= FLOAT32_MAX:
            raise BadRequestError("observations must be finite numbers")
    return [float(value) for value in observations]


def _format(fields: dict[str, Any]) -> str:
    wanted = fields.get("observationFormat")
    if wanted is None:
        return NORMALIZED
    if wanted not in FORMATS:
        raise BadRequestError(f"observationFormat must be {NORMALIZED} or {VEHICLE_COUNTS}")
    return str(wanted)
