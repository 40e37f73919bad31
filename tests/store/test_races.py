"""Two processes of one service on one store: the races of the contract."""

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from load_tests.harness.free_ports import free_port
from tests import races

ROOT = Path(__file__).parents[2]


@pytest.fixture
def loans_urls(store_url):
    """Return the base URLs of two processes that serve loans from the same store."""
    ports = [free_port(), free_port()]
    servers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.store.record_server", "loans", str(port)],
            cwd=ROOT,
            env={**os.environ, "STORE_URL": store_url},
        )
        for port in ports
    ]
    try:
        urls = [f"http://127.0.0.1:{port}/api/loans" for port in ports]
        for url, server in zip(urls, servers, strict=True):
            wait_until_it_answers(f"{url}/sayHello", server)
        yield urls
    finally:
        for server in servers:
            server.terminate()
            server.wait(timeout=20)


def wait_until_it_answers(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            httpx.get(url, timeout=5.0).raise_for_status()
            return
        except httpx.HTTPError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


async def test_of_fifty_creates_of_one_mobile_number_one_succeeds(loans_urls):
    for mobile in ("4354437687", "4354437688", "4354437689"):
        await races.creates_of_one_mobile_number(loans_urls, mobile)


async def test_concurrent_updates_never_mix_fields(loans_urls):
    await races.updates_of_one_record(loans_urls, "4354437687")


async def test_one_of_many_records_gets_the_wanted_mobile_number(loans_urls):
    mobiles = [str(4354437600 + n) for n in range(21)]
    await races.updates_to_one_mobile_number(loans_urls, mobiles)
