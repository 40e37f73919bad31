"""What the picture shows of a comparison."""

from __future__ import annotations

from matplotlib.patches import Rectangle

from load_tests.bench.comparison.chart import OTHERS, OURS, draw, save
from tests.unit.load_tests.bench.made import turn

TURNS = {
    "ours": [turn(a=1, b=200, c=3), turn(a=1, b=300, c=3), turn(a=1, b=250, c=3)],
    "peer": [turn(memory_bytes=50_000_000, a=4, b=100)],
}


def test_bars_are_the_medians_and_ours_have_a_colour_of_their_own():
    speed, cpu, memory = draw(TURNS, ["a", "b", "c"], ["ours"]).axes
    widths = [[bar.get_width() for bar in group] for group in speed.containers]
    assert widths == [[1, 4], [250, 100], [3, 0]]
    assert [bar.get_width() for bar in cpu.containers[0]] == [2, 5]
    assert [bar.get_width() for bar in memory.containers[0]] == [100, 50]
    colours = [bar.get_facecolor() for bar in memory.patches if isinstance(bar, Rectangle)]
    assert len(set(colours)) == len({OURS, OTHERS})
    assert [text.get_text() for text in speed.get_yticklabels()] == ["ours", "peer"]


def test_the_same_figures_make_the_same_file(tmp_path):
    for name in ("one.png", "two.png"):
        save(draw(TURNS, ["a", "b", "c"], ["ours"]), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
