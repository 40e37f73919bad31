"""What the console can be told in a serve config, as ``args`` of its application."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class ConsoleOptions(BaseModel):
    """Options of one console application."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    network: Path | None = Field(
        None,
        description="Network file whose junctions are shown: up to 200, those with the lowest "
        "agent indices.",
        json_schema_extra={"default": "`NETWORK_PATH`, or the shipped network"},
    )
    login: bool = Field(
        True,
        description="Whether the console asks for a user of the gateway. Without, whoever reaches "
        "its page sees what the junctions observe, also through the gateway's port.",
    )
    look_while_unchecked: bool = Field(
        True,
        description="Whether users may still look while the store could not be asked for 5 s which "
        "tokens are revoked; otherwise they are answered 503.",
    )
    trust_forwarded_for: bool = Field(
        True,
        description="Whether the audit log has the address of `X-Forwarded-For`, as the edge sets "
        "it.",
    )
    max_clients: int = Field(
        50,
        ge=1,
        le=1000,
        description="Maximum number of open consoles; any further one is answered 503. Each takes "
        "some 0.03 % of a core.",
        json_schema_extra={"unit": "browsers"},
    )
