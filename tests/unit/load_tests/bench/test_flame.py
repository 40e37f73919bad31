"""From the stacks that a profiler saw to the bars of a flame graph."""

from __future__ import annotations

import pytest

from load_tests.bench.comparison.flame import bars_of, plot, read_stacks, tree_of

STACKS = """\
main (a.py:1);run (loop.py:5);step (models/junctions.py:10) 30
main (a.py:1);run (loop.py:5);step (models/junctions.py:12);dot (c.py:1) 10
main (a.py:1);run (loop.py:5);write (d.py:7) 60
main (a.py:1);wait (e.py:1) 900
"""


def test_a_stack_is_the_same_whatever_line_its_functions_were_at():
    stacks = read_stacks("f (a.py:1);g (a.py:2) 3\nf (a.py:9);g (a.py:8) 4\n")
    assert stacks == {("f (a.py)", "g (a.py)"): 7}


def test_what_is_no_stack_is_refused():
    with pytest.raises(ValueError, match="oops"):
        read_stacks("f (a.py:1) oops\n")


def test_bars_are_as_wide_as_their_share_and_calls_stand_within_their_callers():
    root = tree_of(read_stacks(STACKS), "run (loop.py")
    assert list(bars_of(root, 0.0, 0, root.count)) == [
        ("step (models/junctions.py)", 0.0, 0.4, 0),
        ("dot (c.py)", 0.0, 0.1, 1),
        ("write (d.py)", 0.4, 0.6, 0),
    ]


def test_of_stacks_without_the_frame_that_is_asked_for_nothing_is_left():
    assert tree_of(read_stacks(STACKS), "nowhere").count == 0


def test_it_is_drawn(tmp_path):
    plot(tree_of(read_stacks(STACKS), "run"), tmp_path / "flame.png")
    assert (tmp_path / "flame.png").stat().st_size > 1000
