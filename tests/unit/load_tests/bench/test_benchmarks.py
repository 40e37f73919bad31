"""The command line of the benchmarks, what they generate, and the tables of their reports."""

import argparse
from pathlib import Path

import pytest

from load_tests.bench import overload
from load_tests.bench.__main__ import MODULES, benchmark_of, main, run
from load_tests.bench.harness import Benchmark, BenchmarkError
from load_tests.bench.report import Column, Results


@pytest.mark.parametrize("name", MODULES)
def test_every_name_is_a_benchmark_with_tables(name: str) -> None:
    assert all(map(list, benchmark_of(name).tables))


def measure(options: argparse.Namespace, results: Results) -> None:
    for part in options.only:
        if part == "bad":
            raise BenchmarkError("no wind today")
        for extra in range(options.rounds):
            rate = {"ours": 500, "peer": 250}[part] + extra
            results.add(part, {"per_s": rate}, "few")
    results.add("ours", {"p50_ms": 1.5, "start_s": 2.0})
    results.add("other", {"start_s": 3.0})


TABLES = [
    [Column("rate", "per_s", "few", versus_first=True), Column("p50", "p50_ms", digits=2)],
    [Column("never measured", "per_s", "many")],
]
EXAMPLE = Benchmark(["ours", "peer", "bad"], measure, TABLES, rounds=3, name="example")


@pytest.fixture(autouse=True)
def prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("load_tests.bench.__main__.FOLDER", tmp_path)
    monkeypatch.setattr("load_tests.bench.__main__.wrk_command", lambda *_: [])


def rows(folder: Path) -> list[str]:
    lines = (folder / "example.md").read_text().splitlines()
    return [line for line in lines if line.startswith("|")]


def test_each_subject_with_a_figure_has_a_row_with_its_medians_and_ratios(tmp_path: Path) -> None:
    assert run(EXAMPLE, ["--only", "ours,peer"]) == 0
    assert rows(tmp_path) == [
        "| medians | rate | p50 |",
        "| --- | ---: | ---: |",
        "| ours | 501 | 1.50 |",
        "| peer | 251 (0.50 ×) | - |",
    ]


def test_what_was_measured_before_a_failure_is_kept_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(EXAMPLE, ["--rounds", "7"]) == 1
    assert rows(tmp_path)[2] == "| ours | 503 | - |"
    assert "no wind today" in capsys.readouterr().out


def test_unknown_names_are_refused_and_help_has_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(EXAMPLE, ["--only", "ugly"])
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
