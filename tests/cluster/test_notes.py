"""What is noted in Ray's memory, on a real cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from load_tests.harness.system import System

PROGRAM = """
import json, sys
from ray._raylet import GcsClient
from ray.experimental.internal_kv import _initialize_internal_kv
from deployments.ray_private.core import note, noted

_initialize_internal_kv(GcsClient(sys.argv[1]))  # as in a state actor
kept = [note("test/a", "first"), note("test/a", "second"), note("test/b", ""), note("test/b", "2")]
print(json.dumps([kept, sorted(noted("test/")), noted("none/")]))
"""


def test_the_first_value_of_a_name_is_kept(system: System) -> None:
    address = f"127.0.0.1:{system.instance.ports.gcs}"
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(system.instance.token_file)}
    program = [sys.executable, "-c", PROGRAM, address]
    printed = subprocess.check_output(program, env=os.environ | token, text=True, timeout=60)
    assert json.loads(printed) == [["first", "first", "", ""], ["test/a", "test/b"], []]
