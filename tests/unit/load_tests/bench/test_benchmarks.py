"""The command line of the benchmarks, what they generate, and the tables of their reports."""

import argparse
from pathlib import Path

import pytest

from load_tests.bench import overload
from load_tests.bench.__main__ import MODULES, benchmark_of, main, run
from load_tests.bench.harness import Benchmark, BenchmarkError
from load_tests.bench.report import Column, Results, results_table


@pytest.mark.parametrize("name", MODULES)
def test_every_name_is_a_benchmark_with_tables(name: str) -> None:
    benchmark = benchmark_of(name)
    assert benchmark.name == name
    assert all(map(list, benchmark.tables))


def measure(options: argparse.Namespace, results: Results) -> None:
    for part in options.only:
        if part == "bad":
            raise BenchmarkError("no wind today")
        results.add(part, {"per_s": options.rounds})


TABLES = [[Column("rate", "per_s")]]
EXAMPLE = Benchmark("example", "About.", ["good", "bad"], measure, TABLES)


@pytest.fixture(autouse=True)
def prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("load_tests.bench.__main__.FOLDER", tmp_path)
    monkeypatch.setattr("load_tests.bench.__main__.wrk_command", lambda *_: [])


def test_a_part_is_measured_and_reported(tmp_path: Path) -> None:
    assert run(EXAMPLE, ["--only", "good", "--rounds", "7"]) == 0
    assert "| good | 7 |" in (tmp_path / "example.md").read_text()
    with pytest.raises(SystemExit):
        run(EXAMPLE, ["--only", "ugly"])


def test_what_was_measured_before_a_failure_is_kept_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(EXAMPLE, []) == 1
    assert "| good | 5 |" in (tmp_path / "example.md").read_text()
    assert "no wind today" in capsys.readouterr().out


def test_an_unknown_benchmark_is_refused_and_help_names_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["step"]) == 2
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in MODULES)


ACCEPTED = "RESPONSE 200 1500  "
REFUSED = "RESPONSE 503 200 overloaded 1"


def test_an_overload_refuses_properly_or_fails() -> None:
    figures = overload.judge(["RESULT {}", *[ACCEPTED] * 3, REFUSED])
    assert figures == {"p50_ms": 1.5, "p99_ms": 1.5, "refused_percent": 25.0}
    for line in ("RESPONSE 503 9 overloaded ", "RESPONSE 500 9 internal 1", "RESPONSE 0 9  "):
        with pytest.raises(BenchmarkError, match="ended with"):
            overload.judge([ACCEPTED, ACCEPTED, line])
    with pytest.raises(BenchmarkError, match="No request was accepted, 1 were"):
        overload.judge([REFUSED])


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
