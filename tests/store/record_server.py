"""A record service on uvicorn alone, as a process of its own: `python -m … SERVICE PORT`."""

import os
import sys

import uvicorn

from deployments.customers import record_types
from deployments.customers.records.api import create_app
from deployments.customers.records.service import RecordService
from deployments.store import open_store

if __name__ == "__main__":
    service = RecordService(record_types()[sys.argv[1]], open_store(os.environ["STORE_URL"]))
    uvicorn.run(create_app(service), port=int(sys.argv[2]), log_level="warning")
