"""Which files SUMO reads: those that it is given, and those that they name in turn."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from html import unescape
from pathlib import Path

from lab.net.net import opened

# <include href="...">, <rerouter file="...">, edgesFile="..." and the like, and XML's entities.
_NAMED = re.compile(rb"""(?:\w*[Ff]iles?|href|SYSTEM)\s*=?\s*["']([^"'<>]+)["']""")


def all_inputs(paths: Iterable[Path]) -> list[Path]:
    """Return files with all that they name, as far as those exist, each once, in a fixed order.

    Whatever an element names counts, so a file that is there and that SUMO would write counts, too.
    """
    found: dict[Path, None] = {}
    ahead = list(paths)
    while ahead:
        path = ahead.pop().resolve()
        if path not in found and path.is_file():
            found[path] = None
            ahead += [path.parent / name for name in _names(path)]
    return list(found)


def _names(path: Path) -> Iterable[str]:
    try:
        with opened(path) as file:
            content = file.read()
    except (OSError, EOFError, zlib.error):
        return
    for text in _NAMED.findall(content):
        for name in unescape(text.decode(errors="replace")).split(","):
            if name := name.strip():
                yield name
