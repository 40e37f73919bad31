"""Builder of the accounts, loans and cards applications.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from dataclasses import replace

from ray.serve import Application, Deployment

from deployments.customers import record_types
from deployments.customers.records.deployment import CustomerRecords, RecordOptions
from deployments.customers.records.record_type import RecordType
from serve_app.configured_replicas import (
    configured_observability,
    open_configured_store,
    require_shared_store,
)
from serve_app.settings import Settings


def build(args: RecordOptions) -> Application:
    """Build the application; ``import_path`` in the serve config names this function."""
    require_shared_store()
    deployment: Deployment = CustomerRecords
    settings = Settings()
    record_type = configured(args.record, settings)
    return deployment.bind(record_type, open_configured_store, configured_observability(settings))


def configured(name: str, settings: Settings) -> RecordType:
    """Return a type of records, with what the settings say of it."""
    record_type = record_types()[name]
    if name != "loans":
        return record_type
    return replace(record_type, invalid_update_status=settings.loans_update_validation_status)
