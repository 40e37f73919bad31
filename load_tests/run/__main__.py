"""Loads the running system with scenarios, one after the other, and judges each by its gates.

{scenarios}
Of each, the folder gets a report as HTML, every figure as CSV, and Locust's log. The process ends
with 1 if a gate of load_tests/gates.toml was missed.

    make load ARGS="controllers records --minutes 2"
    make load ARGS="overload --ui"        # Locust's own page, on http://localhost:8089
"""

from __future__ import annotations

import sys

from load_tests.run.command import Load
from load_tests.run.errors import LoadTestError
from load_tests.run.gates import read_gates
from load_tests.run.options import read_options
from load_tests.run.report import console
from load_tests.run.session import Session
from load_tests.run.target import find_target

INTERRUPTED = 130


def main() -> int:
    options = read_options(__doc__ or "")
    try:
        gates = read_gates(options.gates)
        target = find_target(options.port_base, options.host)
        target.check()
        load = Load(
            target.url,
            options.folder.resolve(),
            options.users,
            options.minutes,
            options.workers,
            options.remote_workers,
            options.connections,
        )
        session = Session(target, load, gates)
        if options.ui:
            return session.serve_page(options.scenarios[0])
        session.check(options.scenarios)
        missed = [each for each in options.scenarios if not session.run(each)]
    except LoadTestError as error:
        console.print(str(error), style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print(f"Interrupted; what is known until now is in {options.folder}.")
        return INTERRUPTED
    if missed:
        console.print(f"Gates were missed: {', '.join(missed)}.", style="red", markup=False)
    console.print(f"Reports are in {options.folder}.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
