"""The record beside a policy's weights."""

import pytest

from models.policy.training_record import TrainingRecord, read_record, record_of, write_record


@pytest.mark.parametrize("record", [TrainingRecord(True, "all"), TrainingRecord(False, "standing")])
def test_what_is_written_is_read_and_is_of_one_file(tmp_path, record):
    write_record(tmp_path / "best.th", record)
    assert read_record(tmp_path / "best.th") == record
    assert read_record(tmp_path / "last.th") == TrainingRecord()


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b"{}", b'{"trained_behind_safety_layer": 1}', b'{"counts": ["all"]}'],
)
def test_any_other_content_is_no_confirmation(tmp_path, content):
    record_of(tmp_path / "best.th").write_bytes(content)
    assert read_record(tmp_path / "best.th") == TrainingRecord(False, "standing")


def test_a_record_of_an_earlier_release_knows_of_the_layer_only(tmp_path):
    record_of(tmp_path / "best.th").write_bytes(b'{"trained_behind_safety_layer": true}')
    assert read_record(tmp_path / "best.th") == TrainingRecord(True, "standing")
