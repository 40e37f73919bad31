"""Reads requests for a decision, in the order and with the messages of the contract."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic_core import from_json
from starlette.types import Scope

from deployments.gateway.errors import BadRequestError
from deployments.http.messages import (
    NOT_A_KEY,
    NOT_A_RUN_ID,
    RAW_KEY_HEADER,
    RAW_RUN_HEADER,
    is_misnamed,
    is_name,
    not_read,
)
from deployments.http.request import header, query_of
from deployments.log import REQUEST_ID_HEADER, logger
from models.networks.network import Junction, Network
from models.networks.shipped import SHIPPED
from models.signals.safety import Shown

FLOAT32_MAX = float(np.finfo(np.float32).max)
MAX_SECONDS = 10**9  # thirty years
_REQUEST_ID = re.compile(r"[!-~]{1,128}")
NORMALIZED, VEHICLE_COUNTS = FORMATS = ("normalized", "vehicle_counts")


class Names(NamedTuple):
    """What a request names.

    Attributes:
        run: simulation run, None for the default one.
        key: idempotency key, new unless the client sent one.
        request_id: for the inference service's log.
    """

    run: str | None
    key: str
    request_id: str | None


def read_names(scope: Scope) -> Names:
    """Read the names in a request's headers.

    Raises:
        BadRequestError: one is invalid, or in the query.
    """
    for parameter in filter(is_misnamed, dict(query_of(scope))):
        raise BadRequestError(not_read(parameter))
    run, key = header(scope, RAW_RUN_HEADER), header(scope, RAW_KEY_HEADER)
    for name, refusal in ((run, NOT_A_RUN_ID), (key, NOT_A_KEY)):
        if name is not None and not is_name(name):
            raise BadRequestError(refusal)
    request_id = header(scope, REQUEST_ID_HEADER)
    if request_id is not None and not _REQUEST_ID.fullmatch(request_id):
        request_id = None
    return Names(run, key or os.urandom(12).hex(), request_id)


class ActionQuery(NamedTuple):
    """A valid request: a known junction, and finite values that fit the policy.

    Attributes:
        simulation_time_s: seconds since the client's midnight; None for the time of day here.
        shown: signals that the junction shows; None without the safety layer.
    """

    junction_id: str
    obs: list[float]
    simulation_time_s: float | None = None
    shown: Shown | None = None


def parse_json_object(body: bytes) -> dict[str, Any]:
    """Return the members of a JSON object; none for any other JSON value.

    Raises:
        BadRequestError: it is not JSON in UTF-8, or is nested too deep.
    """
    try:
        value = from_json(body)
    except ValueError:
        raise BadRequestError("Malformed JSON request body") from None
    return value if isinstance(value, dict) else {}


def parse_action_request(
    body: bytes, safely: bool = False, network: Network = SHIPPED
) -> ActionQuery:
    """Validate a body and convert its observations to the policy's form.

    Args:
        safely: whether ``shown`` is required.

    Raises:
        BadRequestError: with the message of the first broken rule.
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
        obs = normalize_counts(junction, obs)
    if "metadata" in fields:
        logger.info("Junction %s, metadata %.200r", junction_id, fields["metadata"])
    simulation_time_s = _simulation_time_s(fields.get("simulationTime"))
    shown = parse_shown(junction, fields.get("shown")) if safely else None
    for name in filter(is_misnamed, fields):
        raise BadRequestError(not_read(name))
    return ActionQuery(junction_id, obs, simulation_time_s, shown)


def _simulation_time_s(value: object) -> float | None:
    if value is None:
        return None
    if type(value) not in (float, int) or not 0 <= value <= MAX_SECONDS:  # type: ignore[operator]
        raise BadRequestError(f"simulationTime must be a number of seconds from 0 to {MAX_SECONDS}")
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


def parse_shown(junction: Junction, value: Any) -> Shown:
    """Read ``shown``: the signals that a junction shows, for the safety layer.

    Raises:
        BadRequestError: with the message of the first broken rule.
    """
    if value is None:
        raise BadRequestError("shown is required while the safety layer is on")
    if not isinstance(value, dict):
        raise BadRequestError("shown must have phase, greenSeconds and redSeconds")
    n_phases = junction.n_phases
    phase: Any = value.get("phase")
    green_s: Any = value.get("greenSeconds")
    red_s: Any = value.get("redSeconds")
    if type(phase) is not int or not 0 <= phase < n_phases:
        raise BadRequestError(f"shown.phase must be a phase of the junction, 0 to {n_phases - 1}")
    if type(green_s) not in (float, int) or not -MAX_SECONDS <= green_s <= MAX_SECONDS:
        raise BadRequestError("shown.greenSeconds must be a number of seconds")
    if type(red_s) is not list or len(red_s) != n_phases:
        raise BadRequestError(f"shown.redSeconds must have {n_phases} numbers, one for each phase")
    for seconds in red_s:
        if type(seconds) not in (float, int) or not 0 <= seconds <= MAX_SECONDS:
            raise BadRequestError("shown.redSeconds must be numbers of seconds, 0 or more")
    return Shown(phase, green_s, red_s)


def normalize_counts(junction: Junction, values: Sequence[float]) -> list[float]:
    """Return the observation of vehicle counts, see :meth:`.Junction.normalized`.

    Raises:
        BadRequestError: the length is not the junction's, or a count is negative.
    """
    if len(values) != junction.obs_size:
        raise BadRequestError(
            f"observations must have exactly {junction.obs_size} values in the format "
            f"vehicle_counts (received {len(values)})"
        )
    try:
        return junction.normalized(values)
    except ValueError as error:
        raise BadRequestError(str(error)) from None


def random_observation(junction: Junction, source: random.Random) -> list[float]:
    """Return a plausible (obs_size,) observation: a random phase, and mostly short queues."""
    phase = source.randrange(junction.n_phases)
    one_hot = [float(phase == each) for each in range(junction.n_phases)]
    may_change = float(source.random() < 0.5)
    queues = [round(source.betavariate(1.2, 4.0), 3) for _ in junction.scales]
    return [*one_hot, may_change, *queues]
