"""What the tables say, and where they go."""

from __future__ import annotations

import pytest

from load_tests.bench.comparison.figures import Bar
from load_tests.bench.comparison.markdown import (
    bars_table,
    contenders_table,
    rate,
    replace_section,
    under,
    whole,
)
from tests.unit.load_tests.bench.made import TURNS


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_each_contender_has_a_row_with_its_medians():
    columns = {"p50": under("few", "p50_ms"), "MB": whole("memory_bytes", unit=1e6)}
    assert cells(contenders_table(TURNS, columns)) == [
        ["medians", "p50", "MB"],
        ["---", "---:", "---:"],
        ["ours", "2.00", "100"],
        ["peer", "4.00", "100"],
        ["broken", "10.00", "100"],
    ]


def test_beside_a_peers_throughput_stands_how_many_times_it_ours_is():
    table = cells(contenders_table(TURNS, {"rate": rate("many", TURNS["ours"])}))
    assert table[2:] == [["ours", "900"], ["peer", "300 (3.00 ×)"], ["broken", "-"]]


def test_throughput_stands_alone_where_ours_was_not_measured():
    assert cells(contenders_table(TURNS, {"rate": rate("many", [])}))[3] == ["peer", "300"]


def test_bars_are_met_or_missed_or_not_told_of():
    bars = [
        Bar("ours", "per_s", "few", "peer", ">=", 1.5),
        Bar("ours", "p50_ms", "few", "peer", "<=", 0.4),
        Bar("ours", "per_s", "many", "ours", ">=", 4, "few"),
        Bar("ours", "per_s", "many", "nobody", ">=", 1),
    ]
    assert cells(bars_table(TURNS, bars))[2:] == [
        ["ours, predictions/s at few", ">= 1.5 × peer", "2.00 ×", "met"],
        ["ours, p50 at few", "<= 0.4 × peer", "0.50 ×", "missed"],
        ["ours, predictions/s at many", ">= 4 × few", "1.80 ×", "missed"],
    ]


def test_a_section_is_replaced_and_the_page_around_it_stays():
    page = "# Page\n\n<!-- x -->\n\nold\n\n<!-- end of x -->\n\nrest\n"
    once = replace_section(page, "x", "new\n")
    assert once == "# Page\n\n<!-- x -->\n\nnew\n\n<!-- end of x -->\n\nrest\n"
    assert replace_section(once, "x", "new") == once


@pytest.mark.parametrize("page", ["", "<!-- x -->", "<!-- x --><!-- x --><!-- end of x -->"])
def test_a_page_without_the_places_is_refused(page):
    with pytest.raises(ValueError, match="needs one"):
        replace_section(page, "x", "new")
