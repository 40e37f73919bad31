"""What is known of a policy's training: a JSON file beside its weights, which have a fixed form."""

from __future__ import annotations

import json
from pathlib import Path

from models.atomic_write import atomic_write

_MEMBER = "trained_behind_safety_layer"


def record_of(weights: Path) -> Path:
    """Return the file beside the weights, such as ``best.json`` beside ``best.th``."""
    return weights.with_suffix(".json")


def write_record(weights: Path) -> None:
    """Record that the weights were trained behind the safety layer."""
    with atomic_write(record_of(weights)) as file:
        file.write(json.dumps({_MEMBER: True}).encode())


def was_trained_behind_safety_layer(weights: Path) -> bool:
    """Return whether the record confirms it; without a readable record, it does not."""
    try:
        record = json.loads(record_of(weights).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and record.get(_MEMBER) is True
