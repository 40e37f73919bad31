"""The place of a failed import: a file and a line."""

import json

import pytest

from serve_app import errors


@pytest.mark.parametrize(("ours", "file"), [(True, "test_errors.py"), (False, "decoder.py")])
def test_a_place_is_in_our_code_or_without_one_the_last(monkeypatch, ours, file):
    if not ours:
        monkeypatch.setattr(errors, "_is_ours", lambda path: False)
    with pytest.raises(ValueError, match="Expecting") as failed:
        json.loads("{")
    assert f"{file}:" in errors.place(failed.value)
