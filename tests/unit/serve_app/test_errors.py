"""Where an import has failed is said as a place in a file."""

from __future__ import annotations

import json

import pytest

from serve_app import errors


@pytest.mark.parametrize(("ours", "file"), [(True, "test_errors.py"), (False, "decoder.py")])
def test_a_place_is_in_our_code_or_where_none_of_it_can_be_told_the_last_one(
    monkeypatch: pytest.MonkeyPatch, ours: bool, file: str
) -> None:
    if not ours:
        monkeypatch.setattr(errors, "_is_ours", lambda path: False)
    with pytest.raises(ValueError, match="Expecting") as failed:
        json.loads("{")
    assert f"{file}:" in errors.place(failed.value)
