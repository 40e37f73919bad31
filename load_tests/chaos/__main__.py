"""Lets things happen to systems of its own, under load, and tells what they cost.

    services   parts of a whole system are killed, versions change; for how long is who away?
    states     replicas, state actors, the store are killed, paused, changed; is a step lost?

Without a name, both, one after the other: some forty minutes.

    make chaos ARGS="services --help"
"""

from __future__ import annotations

import sys

from load_tests.chaos import services_command, states_command

_PARTS = {"services": services_command.main, "states": states_command.main}


def main(arguments: list[str]) -> int:
    match arguments:
        case []:
            return max(run([]) for run in _PARTS.values())
        case [("-h" | "--help"), *_]:
            sys.stdout.write(f"{__doc__}\n")
            return 0
        case [name, *options] if name in _PARTS:
            return _PARTS[name](options)
    known = ", ".join(_PARTS)
    sys.stderr.write(f"{arguments[0]!r} is not one of {known}; --help says more\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
