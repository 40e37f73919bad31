from __future__ import annotations

import pytest

from deployments.http.run_id import is_run_id


@pytest.mark.parametrize("text", ["a", "run-7", "A.b_c:d-9", "x" * 64])
def test_a_run_id_is_accepted(text: str) -> None:
    assert is_run_id(text)


@pytest.mark.parametrize("text", ["", "a b", "ä", "a\n", "x" * 65, "a/b"])
def test_anything_else_is_no_run_id(text: str) -> None:
    assert not is_run_id(text)
