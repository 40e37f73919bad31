"""What a client says that a junction shows, for the safety layer."""

from __future__ import annotations

from typing import Any

from deployments.gateway.errors import BadRequestError
from models.networks.network import Junction
from models.signals.safety import Shown

MAX_SECONDS = 10**9  # some thirty years


def parse_shown(junction: Junction, value: Any) -> Shown:
    """Read what a client says that a junction shows.

    Raises:
        BadRequestError: with the message of the first rule that is broken.
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
