"""The medians and tables of a report."""

import pytest

from load_tests.bench.report import Column, Results, results_table


@pytest.fixture
def results() -> Results:
    results = Results()
    for subject, rate in {"ours": 500, "peer": 250}.items():
        results.add(subject, {"per_s": rate, "p50_ms": 1000 / rate}, "few")
    results.add("ours", {"per_s": 1200}, "many")
    results.add("broken", {"start_s": 2.0})
    return results


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_each_subject_with_a_figure_has_a_row_with_its_medians(results: Results) -> None:
    columns = [Column("p50", "p50_ms", "few", 2), Column("rate", "per_s", "many")]
    assert cells(results_table(results, columns)) == [
        ["medians", "p50", "rate"],
        ["---", "---:", "---:"],
        ["ours", "2.00", "1,200"],
        ["peer", "4.00", "-"],
    ]
    assert results_table(results, [Column("rate", "per_s", "none")]) == ""


def test_a_cell_shows_its_ratio_to_the_first_row(results: Results) -> None:
    table = cells(results_table(results, [Column("rate", "per_s", "few", versus_first=True)]))
    assert [row[1] for row in table[2:]] == ["500", "250 (0.50 ×)"]
