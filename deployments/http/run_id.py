"""The id of a simulation run: where a request bears it, and what it may look like."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Header

RUN_HEADER = "X-Simulation-Run"
RAW_RUN_HEADER = RUN_HEADER.lower().encode()  # as ASGI gives it
NOT_A_RUN_ID = "A run id is 1 to 64 characters of A-Z a-z 0-9 . _ : -"
RUN_DESCRIPTION = "Simulation run, 1 to 64 of `A-Z a-z 0-9 . _ : -`; `default` when missing."

_RUN_ID = "[A-Za-z0-9._:-]{1,64}"
_matches = re.compile(_RUN_ID).fullmatch

# For the OpenAPI document alone: the services refuse a wrong id each in its own form of errors.
Run = Annotated[
    str | None,
    Header(
        alias=RUN_HEADER,
        description=RUN_DESCRIPTION,
        json_schema_extra={"pattern": f"^{_RUN_ID}$"},
    ),
]


def is_run_id(text: str) -> bool:
    """Tell whether a text may name a simulation run."""
    return _matches(text) is not None
