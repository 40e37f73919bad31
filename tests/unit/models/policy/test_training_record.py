"""The record beside a policy's weights."""

from __future__ import annotations

import pytest

from models.policy.training_record import (
    record_of,
    was_trained_behind_safety_layer,
    write_record,
)


def test_a_policy_with_a_record_was_trained_behind_the_safety_layer(tmp_path):
    write_record(tmp_path / "best.th")
    assert was_trained_behind_safety_layer(tmp_path / "best.th")
    assert not was_trained_behind_safety_layer(tmp_path / "last.th")


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b"{}", b'{"trained_behind_safety_layer": 1}']
)
def test_any_other_content_is_no_confirmation(tmp_path, content):
    record_of(tmp_path / "best.th").write_bytes(content)
    assert not was_trained_behind_safety_layer(tmp_path / "best.th")
