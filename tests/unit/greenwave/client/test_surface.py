"""What users see of the client: the same calls twice, with signatures, and little to install."""

from __future__ import annotations

import inspect
import subprocess
import sys

import greenwave.client
from greenwave.client import AsyncClient, Client


def test_both_clients_have_the_same_methods():
    def methods(kind: type) -> set[str]:
        names = {name for name, each in inspect.getmembers(kind) if callable(each)}
        return {name for name in names if not name.startswith("_")}

    assert methods(Client) == methods(AsyncClient) == {"close", "run"}
    assert vars(Client("http://gateway")).keys() == vars(AsyncClient("http://gateway")).keys()


def test_a_machine_that_only_calls_needs_nothing_of_what_serves() -> None:
    heavy = {
        "deployments",
        "fastapi",
        "httpx",
        "lab",
        "models",
        "numpy",
        "ray",
        "serve_app",
        "starlette",
    }
    listed = (
        "from greenwave.client import Client; import sys;"
        "from greenwave.client.inference import Inference;"
        "Inference(print, '').infer([[0.5]], ['pier'], runs='run-1'); print(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", listed], capture_output=True, check=True)
    assert heavy & set(result.stdout.decode().split()) == set()


def test_all_public_names_are_exported() -> None:
    errors = {
        name for name, each in vars(greenwave.client.errors).items() if inspect.isclass(each)
    } - {"Mapping"}
    assert errors <= set(greenwave.client.__all__)
