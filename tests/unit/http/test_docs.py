"""The page of a service's document, and what no page lets a browser do."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from fastapi import FastAPI

from deployments.http.docs import documented_app, page_headers
from tests.unit.http.apps import client_of

HOST = "http://test"


def service() -> FastAPI:
    app = documented_app(title="Some service")

    @app.get("/hello")
    async def hello() -> str:
        return "hello"

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


PAGES = sorted(Path("deployments").rglob("*.html"))


def rules(headers: httpx.Headers | dict[str, str]) -> dict[str, str]:
    """Return the content security policy by directive."""
    policy = headers["content-security-policy"]
    return {name: rest for name, _, rest in (each.partition(" ") for each in policy.split("; "))}


class Inline(HTMLParser):
    """Finds what a strict policy would stop: attributes with code or styles."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [name for name, _ in attrs if name == "style" or name.startswith("on")]


def test_a_page_runs_its_own_scripts_and_no_other():
    headers = page_headers("<style>a{}</style><script>1</script><script src='x.js'></script>")
    scripts, styles = rules(headers)["script-src"], rules(headers)["style-src"]
    # printf 1 | openssl dgst -sha256 -binary | base64
    assert scripts == "'self' 'sha256-a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s='"
    assert re.fullmatch(r"'self' 'sha256-[\w+/]{43}='", styles)
    assert "unsafe" not in headers["content-security-policy"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_page_has_what_its_policy_would_stop(path):
    parser = Inline()
    parser.feed(path.read_text(encoding="utf-8"))
    assert parser.found == []
