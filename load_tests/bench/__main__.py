"""Measures Greenwave beside its peers: medians and ratios, as tables in Markdown and as JSON.

{benchmarks}
Without a name it is ``peers``, and ``all`` measures one after the other.

    make bench ARGS="--only greenwave,fastapi --rounds 1"
    make bench ARGS="growth --only states"
    make bench ARGS="growth --help"
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from importlib import import_module

import httpx

from greenwave.client import GreenwaveError
from load_tests.bench.harness import Benchmark, BenchmarkError, console
from load_tests.bench.report import Results, describe_machine, results_table
from load_tests.harness.command_line import names_of
from load_tests.harness.shipped import ROOT
from load_tests.harness.system import free_port_base
from load_tests.harness.wrk import WrkError, wrk_command
from serve_app.cli.up import exit_on_sigterm
from serve_app.errors import CommandError

MODULES = {
    "peers": "the policy beside FastAPI, LitServe, BentoML and bare Serve",
    "gateway": "decisions, fallbacks, safety and traces beside the inference route",
    "forecasts-records": "forecasts and loans beside the inference route",
    "growth": "many hidden states or junctions beside few",
    "replicas": "several replicas, a shadow or a canary beside one replica",
    "overload": "well-behaved clients beside too many connections",
    "rest": "memory and CPU time of the whole system at rest, and seconds until it serves",
}
FOLDER = ROOT / "reports" / "bench"
ERRORS = (BenchmarkError, WrkError, CommandError, GreenwaveError, httpx.HTTPError)


def main(arguments: list[str]) -> int:
    if arguments[:1] in (["-h"], ["--help"]):
        lines = "".join(f"    {each:<18} {about}\n" for each, about in MODULES.items())
        sys.stdout.write((__doc__ or "").format(benchmarks=lines) + "\n")
        return 0
    named = bool(arguments) and not arguments[0].startswith("-")
    name, rest = (arguments[0], arguments[1:]) if named else ("peers", arguments)
    if name not in (*MODULES, "all"):
        sys.stderr.write(f"Unknown benchmark {name!r}; known: {', '.join(MODULES)}.\n")
        return 2
    names = MODULES if name == "all" else [name]
    return max(run(benchmark_of(each), rest) for each in names)


def benchmark_of(name: str) -> Benchmark:
    """Import a benchmark, and nothing of the others."""
    module = import_module(f"load_tests.bench.{name.replace('-', '_')}")
    benchmark: Benchmark = module.BENCHMARK
    return replace(benchmark, name=name, about=module.__doc__)


def run(benchmark: Benchmark, arguments: list[str]) -> int:
    """Measure, print the tables, and write them and all figures; return 1 if one is missing."""
    options = _read_options(benchmark, arguments)
    conditions, results = describe_machine(), Results()
    try:
        wrk_command("", 1, 1.0, ())
        benchmark.measure(options, results)
    except ERRORS as error:
        results.failures.append(str(error))
    except KeyboardInterrupt:
        results.failures.append("Interrupted; this was measured before.")
    for failure in results.failures:
        console.print(failure, style="red", markup=False)
    if results.subjects:
        tables = [results_table(results, columns) for columns in benchmark.tables]
        text = "\n\n".join(filter(None, [*tables, benchmark.notes(results)]))
        console.print(text, markup=False)
        FOLDER.mkdir(parents=True, exist_ok=True)
        rounds = (
            f"Medians of {results.n_rounds} rounds, each load for {options.seconds:g} s; in"
            " brackets the ratio to the first row."
        )
        page = FOLDER / f"{benchmark.name}.md"
        page.write_text(f"{conditions}.\n\n{rounds}\n\n{text}\n")
        content = {"conditions": conditions, "results": results.as_json()}
        page.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
        console.print(f"Written: {page} and {page.with_suffix('.json').name}")
    return 1 if results.failures else 0


def _read_options(benchmark: Benchmark, arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m load_tests.bench {benchmark.name}",
        description=benchmark.about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = ", ".join(benchmark.parts)
    parser.add_argument(
        "--only",
        type=names_of(benchmark.parts),
        default=list(benchmark.parts),
        metavar="PART,...",
        help=f"some of: {parts} (default: all)",
    )
    parser.add_argument("--rounds", type=int, default=benchmark.rounds, help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="length of one load (default: %(default)s)"
    )
    parser.add_argument(
        "--front",
        dest="edge",
        action="store_false",
        help="measure at Serve's front, not through the edge, on the ports that clients call",
    )
    options = parser.parse_args(arguments)
    options.port_base = free_port_base()
    return options


if __name__ == "__main__":
    exit_on_sigterm()  # otherwise the systems that it has started would stay
    sys.exit(main(sys.argv[1:]))
