"""The tables, the files and the sections of a report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from load_tests.bench import peers
from load_tests.bench.report import (
    Column,
    Report,
    Section,
    replace_section,
    results_table,
    thresholds_table,
)
from load_tests.bench.results import Results, Threshold
from load_tests.harness.command_line import save_figure


@pytest.fixture
def results() -> Results:
    results = Results()
    for subject, rate in {"ours": 500, "peer": 250, "loans: ours": 60, "loans: peer": 90}.items():
        results.add(subject, {"per_s": rate, "p50_ms": 1000 / rate, "other_cores": 0.5}, "few")
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
        ["loans: ours", "16.67", "-"],
        ["loans: peer", "11.11", "-"],
    ]
    assert results_table(results, [Column("rate", "per_s", "none")]) == ""


def test_a_cell_shows_its_ratio_to_the_first_row_of_its_group(results: Results) -> None:
    table = cells(results_table(results, [Column("rate", "per_s", "few", versus_first=True)]))
    assert [row[1] for row in table[2:]] == ["500", "250 (0.50 ×)", "60", "90 (1.50 ×)"]


def test_thresholds_are_met_or_missed_or_left_out(results: Results) -> None:
    thresholds = [
        Threshold("ours", "per_s", "few", ">=", 1.5, "peer"),
        Threshold("ours", "p50_ms", "few", "<=", 0.4, "peer"),
        Threshold("ours", "per_s", "many", ">=", 4, "ours", "few"),
        Threshold("ours", "per_s", "many", ">=", 1, "nobody"),
    ]
    assert cells(thresholds_table(results, thresholds))[2:] == [
        ["ours, predictions/s at few", ">= 1.5 × peer", "2.00 ×", "met"],
        ["ours, p50 at few", "<= 0.4 × peer", "0.50 ×", "missed"],
        ["ours, predictions/s at many", ">= 4 × few", "2.40 ×", "missed"],
    ]
    assert thresholds_table(results, thresholds[3:]) == ""


@pytest.fixture
def report(results: Results, tmp_path: Path) -> Report:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- x -->\n\nold\n\n<!-- end of x -->\n\nrest\n")
    section = Section(
        "x",
        [[Column("rate", "per_s", "few")]],
        page=page,
        picture="x.png",
        draw=peers.draw,
        notes=lambda results: f"{len(results.subjects)} subjects",
    )
    return Report("example", [section], results, "Measured here", 2.0)


def test_tables_figures_and_pictures_are_written(report: Report, tmp_path: Path) -> None:
    written = list(report.write(tmp_path / "folder"))
    assert [path.name for path in written] == ["example.md", "example.json", "x.png"]
    text = written[0].read_text()
    assert text.startswith("Measured here. Meanwhile other programs")
    assert "| ours | 500 |" in text
    assert text.endswith("5 subjects\n")
    assert json.loads(written[1].read_text())["seconds"] == 2.0


def test_a_section_of_the_docs_is_replaced_and_the_page_around_it_stays(report: Report) -> None:
    page, picture = list(report.write_docs())
    assert picture == page.with_name("x.png")
    text = page.read_text()
    assert text.startswith("# Page\n\n<!-- x -->\n\nMeasured here")
    assert text.endswith("5 subjects\n\n<!-- end of x -->\n\nrest\n")
    list(replace(report).write_docs())
    assert page.read_text() == text


@pytest.mark.parametrize("page", ["", "<!-- x -->", "<!-- x --><!-- x --><!-- end of x -->"])
def test_a_page_without_the_comments_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="needs exactly one"):
        replace_section(page, "x", "new")


def test_the_same_figures_make_the_same_picture(tmp_path: Path) -> None:
    results = Results()
    for rate, contender in enumerate(peers.CONTENDERS.values(), start=1):
        results.add(contender.name, {"per_s": rate, "cpu_ms": 1 / rate}, "16")
        results.add(contender.name, {"memory_mb": 100 * rate})
    for name in ("one.png", "two.png"):
        save_figure(peers.draw(results), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    speed, cpu, memory = peers.draw(results).axes
    assert [bar.get_width() for bar in speed.containers[1]] == list(range(1, 9))
    assert [bar.get_width() for bar in memory.containers[0]][:2] == [100, 200]
    assert cpu.get_xlabel() == "CPU ms each at 16"
