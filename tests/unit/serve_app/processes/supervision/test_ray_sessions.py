"""Only an instance's own old session folders are removed, and the newest stay."""

from __future__ import annotations

from serve_app.processes.supervision.ray_sessions import KEPT, Sessions


def test_the_newest_few_stay_and_those_of_others_too(tmp_path):
    sessions = Sessions(tmp_path / "note", tmp_path)
    (tmp_path / "session_2026-01-01_999").mkdir()  # another cluster's
    for head in range(1, 7):
        folder = tmp_path / f"session_2026-01-0{head}_{head}"
        (folder / "logs").mkdir(parents=True)
        sessions.add(head)
        sessions.add(head)  # a keeper that takes over notes it again
    sessions.tidy()
    left = sorted(path.name for path in tmp_path.glob("session_*"))
    assert left == ["session_2026-01-01_999", *(f"session_2026-01-0{n}_{n}" for n in (4, 5, 6))]
    assert len(left) == KEPT + 1


def test_the_first_start_of_all_has_nothing_to_tidy(tmp_path):
    Sessions(tmp_path / "note", tmp_path).tidy()
