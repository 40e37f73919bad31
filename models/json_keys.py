"""JSON files in which an object has a key twice, of which parsers take the last."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any


def check_keys(content: bytes | str) -> None:
    """Check that no object of a JSON text has a key twice.

    Args:
        content: valid JSON.

    Raises:
        ValueError: an object has; the message names the key.
    """
    json.loads(content, object_pairs_hook=_check)


def _check(members: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in members]
    if len(set(keys)) < len(keys):
        ((twice, _),) = Counter(keys).most_common(1)
        raise ValueError(f"an object has the key {twice!r} twice")
