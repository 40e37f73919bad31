from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest
from fastapi import FastAPI

from deployments.http.docs import add_docs
from tests.unit.http.apps import client_of

HOST = "http://test"


def service() -> FastAPI:
    app = FastAPI(title="Some service", docs_url=None, redoc_url=None)

    @app.get("/hello")
    async def hello() -> str:
        return "hello"

    add_docs(app)
    return app


@pytest.mark.parametrize("prefix", ["", "/api", "/api/cards"])
async def test_the_page_finds_its_parts_and_its_schema_under_any_prefix(prefix):
    async with client_of(service(), prefix) as client:
        page = await client.get(f"{prefix}/docs")
        assert page.status_code == 200
        addresses = re.findall(
            r"(?:src=\"|rel=\"stylesheet\" href=\"|\"?url\"?: ['\"])([^'\"]+)", page.text
        )
        assert len(addresses) == 3
        for address in addresses:
            found = await client.get(urljoin(f"{HOST}{prefix}/docs", address))
            assert found.status_code == 200, address
        assert (await client.get(f"{prefix}/openapi.json")).json()["paths"].keys() == {"/hello"}
        assert (await client.get(f"{prefix}/redoc")).status_code == 404, "it needs another host"


def test_an_app_with_fastapis_own_pages_is_refused():
    with pytest.raises(ValueError, match="docs_url=None"):
        add_docs(FastAPI())
