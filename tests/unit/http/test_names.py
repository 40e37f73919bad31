from __future__ import annotations

import pytest

from deployments.http.messages import is_name


@pytest.mark.parametrize("text", ["a", "run-7", "A.b_c:d-9", "x" * 64])
def test_a_name_is_accepted(text):
    assert is_name(text)


@pytest.mark.parametrize("text", ["", "a b", "ä", "a\n", "x" * 65, "a/b"])
def test_anything_else_is_no_name(text):
    assert not is_name(text)
