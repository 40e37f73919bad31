"""Builder of the accounts, loans and cards applications.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field, field_validator
from ray.serve import Application, Deployment

from deployments.customers import record_types
from deployments.customers.records.deployment import CustomerRecords
from serve_app.configured_store import open_configured_store, require_shared_store
from serve_app.settings import Settings


class CustomerRecordsArgs(BaseModel):
    """``args`` of the application in a serve config."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    record: str = Field(description="The type of record: a module of deployments.customers.")

    @field_validator("record")
    @classmethod
    def _is_known(cls, record: str) -> str:
        known = list(record_types())
        if record not in known:
            raise ValueError(f"unknown type of record {record!r}; known: {', '.join(known)}")
        return record


def build(args: CustomerRecordsArgs) -> Application:
    """Target of ``import_path`` in the serve config."""
    require_shared_store()
    record_type = record_types()[args.record]
    if args.record == "loans":
        status = Settings().loans_update_validation_status
        record_type = replace(record_type, invalid_update_status=status)
    deployment: Deployment = CustomerRecords
    return deployment.bind(record_type, open_configured_store)
