"""A log has whole lines only, whatever becomes of its disk, its writer or the clock."""

import errno
import io
import os
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from lab.shadow.log import Clock, Entry, LogWriter, Segment, ShadowLogError, read_log
from models.networks.shipped import SHIPPED
from tests.unit.lab.shadow.street import HARBOUR, START_S, decision

HEADER = Segment(segment=1, reason="start", network=HARBOUR.digest, run="x-1", source="s")
PLENTY = 10**6


def entry(time_s: float, line: int = 1) -> Entry:
    return Entry.model_construct(**dict(decision(time_s, 0)), line=line)


class FullDisk(io.FileIO):
    """A file on a disk that has room for some bytes."""

    room = 400

    def write(self, content: object, /) -> int:
        part = bytes(cast(bytes, content))[: self.room]
        if not part:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(part)
        return super().write(part)


def on_full_disk(path: Path) -> BinaryIO:
    return cast(BinaryIO, FullDisk(path, "a+b"))


def fill(log: LogWriter) -> None:
    log.append(HEADER)
    for line in range(1, 100):
        log.append(entry(5.0 * line, line))


def test_a_full_disk_leaves_whole_lines_and_a_sentence(tmp_path):
    path = tmp_path / "log"
    log = LogWriter(path, PLENTY, open=on_full_disk)
    with pytest.raises(ShadowLogError) as error:
        fill(log)
    log.close()
    assert str(error.value) == (
        f"{path} cannot be written: No space left on device. It ends with a whole record;"
        " free space, and repeat the command to continue"
    )
    written = list(read_log(path, HARBOUR))
    assert 2 <= len(written) < 10
    assert path.read_bytes().endswith(b"}\n")
    again = LogWriter(path, PLENTY)
    assert again.tail is not None
    assert again.tail == (HEADER, len(written) - 1)
    again.close()


def test_a_log_does_not_grow_beyond_its_largest_size(tmp_path):
    log = LogWriter(tmp_path / "log", 300)
    with pytest.raises(ShadowLogError, match="has its largest size, 300 bytes"):
        fill(log)
    log.close()
    assert os.path.getsize(tmp_path / "log") <= 300


def test_what_a_crash_left_of_a_line_is_removed_and_the_last_segment_is_found(tmp_path):
    path, second = tmp_path / "log", HEADER.model_copy(update={"segment": 2})
    for more, tail in (
        ((HEADER, entry(0, 1), entry(5, 2)), None),
        ((entry(10, 3), second), (HEADER, 2)),
        ((), (second, 0)),
    ):
        log = LogWriter(path, PLENTY)
        assert log.tail == tail
        for each in more:
            log.append(each)
        log.close()
        with path.open("ab") as file:
            file.write(b'{"time":1000')
    assert [each.line for each in read_log(path, HARBOUR)] == [0, 1, 2, 3, 0]


def test_another_file_is_not_touched(tmp_path):
    path = tmp_path / "notes"
    path.write_text("my notes")
    with pytest.raises(ShadowLogError, match="is not a log of greenwave lab shadow"):
        LogWriter(path, PLENTY)
    assert path.read_text() == "my notes"


@pytest.mark.parametrize("last", ["{", "{}", "[1]", '{"segment":0}'])
def test_a_log_with_a_damaged_last_line_is_not_continued(last, tmp_path):
    path = tmp_path / "log"
    path.write_text(f"{HEADER.model_dump_json()}\n{last}\n")
    with pytest.raises(ShadowLogError, match=f"{path} has a damaged end: "):
        LogWriter(path, PLENTY)
    assert path.read_text().endswith(f"\n{last}\n")


def test_one_process_records_into_a_log(tmp_path):
    log = LogWriter(tmp_path / "log", PLENTY)
    with pytest.raises(ShadowLogError, match="Another process records into"):
        LogWriter(tmp_path / "log", PLENTY)
    log.close()


def test_the_log_reaches_the_disk_once_a_second_and_at_the_end(tmp_path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    now = [0.0]
    log = LogWriter(tmp_path / "log", PLENTY, clock=lambda: now[0])
    for now[0] in (0.2, 0.9, 1.1, 1.5):
        log.append(HEADER)
    assert len(synced) == 1
    log.close()
    assert len(synced) == 2


def test_jumps_of_the_clock_are_named_and_small_disorder_is_not():
    clock = Clock(gap_s=60)
    times = [0, 5, 4.5, 3600, 1800, 1805]
    assert [clock.jump(START_S + each) for each in times] == [
        *("", "", ""),
        "the time jumps forward by 3595 s, to 2001-09-09 03:00:00 UTC",
        "the time jumps back by 1800 s, to 2001-09-09 02:30:00 UTC",
        "",
    ]
    drift = [bool(clock.jump(START_S + 1805 - 0.4 * each)) for each in range(5)]
    assert drift == [False, False, False, True, False]


def test_a_file_of_records_is_read_as_a_log_with_a_segment_for_each_jump(tmp_path):
    path = tmp_path / "records.jsonl"
    records = [decision(0, 0), decision(5, 0), decision(7200, 0)]
    path.write_text("".join(f"{each.model_dump_json(exclude_none=True)}\n" for each in records))
    read = list(read_log(path, HARBOUR))
    assert [each.segment for each in read if isinstance(each, Segment)] == [1, 2]
    assert [type(each) for each in read] == [Segment, Entry, Entry, Segment, Entry]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"segment":1,"reason":"start","network":"x"}\n', "line 1: it is of another network"),
        ('{"time":1}\n', "line 1: junction: Field required"),
        ('{"time":1,"junction":"x","state":"G"}\n', "line 1: the network has no junction 'x'"),
        ("\xff\n", "line 1: Invalid JSON"),
    ],
)
def test_a_damaged_log_is_refused_with_the_line(content, reason, tmp_path):
    (tmp_path / "log").write_text(content, encoding="latin-1")
    with pytest.raises(ShadowLogError, match=reason):
        list(read_log(tmp_path / "log", SHIPPED))


def test_a_missing_log_is_a_sentence(tmp_path):
    with pytest.raises(ShadowLogError, match=r"no\.log cannot be read: No such file"):
        list(read_log(tmp_path / "no.log", HARBOUR))
