"""``make openapi``: write docs/openapi, unless a change is incompatible with the last release.

``docs/openapi`` has what the code declares, and ``docs/openapi/released`` what clients rely on. An
incompatible change needs another first number of the service's version.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.openapi.compatibility import incompatible_changes, major
from tools.openapi.documents import Document, documents, rendered

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "openapi"
RELEASED = "released"


def main(
    argv: Sequence[str] | None = None,
    folder: Path = FOLDER,
    declared: dict[str, Document] | None = None,
) -> int:
    """Write the documents; return the process's exit code."""
    parser = argparse.ArgumentParser(
        prog="openapi", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--release", action="store_true", help="write them as the last release, too"
    )
    arguments = parser.parse_args(argv)
    declared = documents() if declared is None else declared
    broken = broken_promises(folder, declared)
    if broken:
        sys.stderr.write(
            "Nothing was written: these changes are incompatible with the last release:\n"
            + "".join(f"  {each}\n" for each in broken)
            + "Undo them, or raise the first number of the service's version.\n"
        )
        return 1
    targets = [folder, folder / RELEASED] if arguments.release else [folder]
    for target in targets:
        target.mkdir(parents=True, exist_ok=True)
        for name, document in declared.items():
            (target / f"{name}.json").write_text(rendered(document), encoding="utf-8")
    return 0


def broken_promises(folder: Path, declared: dict[str, Document]) -> list[str]:
    """Return a sentence for each incompatible change since the last release."""
    broken = []
    for file in sorted((folder / RELEASED).glob("*.json")):
        promised, now = json.loads(file.read_text(encoding="utf-8")), declared.get(file.stem)
        if now is None:
            broken.append(f"{file.stem}: the service was removed")
        elif major(now) <= major(promised):
            broken += [f"{file.stem}: {each}" for each in incompatible_changes(promised, now)]
    return broken


if __name__ == "__main__":
    raise SystemExit(main())
