"""Print the lines of source and tests by room, and fail above the cap that pyproject.toml names."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path


def main() -> None:
    rooms = {"source": Counter[str](), "tests": Counter[str]()}
    found = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True)
    for path in map(Path, found.stdout.split()):
        if path.exists():  # it may be deleted, and not yet committed
            kind = "tests" if path.parts[0] == "tests" else "source"
            room = path.parts[kind == "tests"]
            rooms[kind][room.removesuffix(".py")] += path.read_text("utf-8").count("\n")
    caps = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["tool"]["lines"]
    for kind, lines in rooms.items():
        by_room = ", ".join(f"{room} {n:,}" for room, n in lines.most_common(12))
        print(f"{kind}: {lines.total():,} of {caps[kind]:,} lines ({by_room})")  # noqa: T201
    if any(lines.total() > caps[kind] for kind, lines in rooms.items()):
        sys.exit("More lines than the cap in pyproject.toml: remove some, or say why it must rise.")


if __name__ == "__main__":
    main()
