"""Options of the console: ``args`` of its application in a serve config."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from deployments.options import Options


class ConsoleOptions(Options):
    """Options of one console application."""

    removed: ClassVar = {
        "look_while_unchecked": "Delete it: users may look while revocations cannot be read.",
        "trust_forwarded_for": "Delete it: the audit log has the address of `X-Forwarded-For`,"
        " which the edge or your load balancer must set.",
        "max_clients": "Delete it: 100 browsers may look at once.",
    }

    network: Path | None = Field(
        None,
        description="Network file whose junctions are shown, at most 200.",
        json_schema_extra={"default": "`NETWORK_PATH`, or the shipped network"},
    )
    login: bool = Field(
        True,
        description="Whether the console asks for a user of the gateway.",
    )
