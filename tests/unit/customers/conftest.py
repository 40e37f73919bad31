"""The three services in process, on an embedded store of their own."""

import pytest

from deployments.customers import record_types
from deployments.customers.records.api import create_app
from deployments.customers.records.service import RecordService
from deployments.store import open_store
from tests.unit.customers.requests import Service
from tests.unit.http.apps import client_of


@pytest.fixture
async def store(tmp_path):
    opened = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    yield opened
    await opened.close()


@pytest.fixture
def make_service(store):
    """Make the service of a record type, as Serve mounts it: below its base path."""

    def make(record_type, *options, **named):
        app = create_app(RecordService(record_type, *(options or (store,)), **named))
        return Service(client_of(app, record_type.base_path), record_type)

    return make


@pytest.fixture(params=["accounts", "loans", "cards"])
def service(request, make_service):
    """Return each of the three services in turn."""
    return make_service(record_types()[request.param])


@pytest.fixture
def accounts(make_service):
    return make_service(record_types()["accounts"])


@pytest.fixture
def loans(make_service):
    return make_service(record_types()["loans"])
