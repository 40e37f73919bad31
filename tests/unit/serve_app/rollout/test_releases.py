"""The configs that were deployed with success are kept in order, the oldest forgotten."""

import contextlib
import time

import pytest

from serve_app.rollout.releases import KEPT, Releases


@pytest.fixture
def releases(tmp_path):
    return Releases(tmp_path / "releases")


def config(number: int) -> dict[str, object]:
    return {"applications": [number]}


def add(releases: Releases, number: int) -> None:
    releases.add(releases.stage(config(number)))


def test_ten_are_kept(releases, tmp_path):
    for number in range(25):
        add(releases, number)
    assert len(list((tmp_path / "releases").iterdir())) == KEPT
    assert releases.current() == config(24)


def test_undo_makes_the_one_before_current_and_can_be_repeated(releases):
    for number in (1, 2, 3):
        add(releases, number)
    releases.undo(releases.stage(config(2)))
    assert (releases.current(), releases.previous()) == (config(2), config(1))
    releases.undo(releases.stage(config(1)))
    assert (releases.current(), releases.previous()) == (config(1), None)


def test_a_truncated_file_is_ignored(releases, tmp_path):
    add(releases, 1)
    (tmp_path / "releases" / "000001.json").write_text('{"applic')
    assert releases.current() is None


def test_a_rollout_that_ends_in_time_is_waited_for(releases, monkeypatch):
    with contextlib.ExitStack() as other:
        other.enter_context(releases.rollout_lock())
        monkeypatch.setattr(time, "sleep", lambda seconds: other.close())
        with releases.rollout_lock():
            pass


def test_only_the_owner_may_read_them(releases, tmp_path):
    add(releases, 1)  # environment variables may hold secrets
    folder = tmp_path / "releases"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert next(folder.iterdir()).stat().st_mode & 0o777 == 0o600
