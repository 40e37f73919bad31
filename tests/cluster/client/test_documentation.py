"""The Python that docs/client.md shows runs as it stands there."""

from __future__ import annotations

import re
from typing import Any

from load_tests.harness.system import System
from tests.documentation import read

_PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_what_the_page_shows_runs_in_its_order(whole: System) -> None:
    blocks = _PYTHON_BLOCK.findall(read("docs/client.md"))
    assert len(blocks) == 5
    namespace: dict[str, Any] = {}
    for block in blocks:
        block = block.replace('Addresses.of_edge("localhost")', f'Addresses.at("{whole.url}")')
        exec(block.replace("http://localhost:8000", whole.url), namespace)
    assert namespace["phase"] in (0, 1)
    assert isinstance(namespace["flow"], int)
    assert {each in (0, 1) for each in namespace["actions"]} == {True}
