"""What a record service can be told in a serve config, as ``args`` of its application."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from deployments.customers import record_types


class RecordOptions(BaseModel):
    """Options of one record application."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    record: str = Field(
        description="Type of the records, a module of `deployments/customers`.",
        json_schema_extra={"range": ", ".join(f"`{name}`" for name in record_types())},
    )

    @field_validator("record")
    @classmethod
    def _is_known(cls, record: str) -> str:
        if record not in record_types():
            known = ", ".join(record_types())
            raise ValueError(f"unknown type of record {record!r}; known: {known}")
        return record
