"""What is known of a policy's training: a JSON file beside its weights, which have a fixed form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, NamedTuple

from models.atomic_write import atomic_write

Counts = Literal["standing", "all"]


class TrainingRecord(NamedTuple):
    """What must be the same wherever the policy decides.

    Attributes:
        trained_behind_safety_layer: whether a safety layer changed its decisions.
        counts: the vehicles of the observation: those that stand, or all on a lane.
    """

    trained_behind_safety_layer: bool = False
    counts: Counts = "standing"


def record_of(weights: Path) -> Path:
    """Return the file beside the weights, such as ``best.json`` beside ``best.th``."""
    return weights.with_suffix(".json")


def write_record(weights: Path, record: TrainingRecord) -> None:
    with atomic_write(record_of(weights)) as file:
        file.write(json.dumps(record._asdict()).encode())


def read_record(weights: Path) -> TrainingRecord:
    """Return what the record confirms; without a readable record, the defaults."""
    try:
        content = json.loads(record_of(weights).read_bytes())
    except (OSError, ValueError):
        return TrainingRecord()
    if not isinstance(content, dict):
        return TrainingRecord()
    return TrainingRecord(
        content.get("trained_behind_safety_layer") is True,
        "all" if content.get("counts") == "all" else "standing",
    )
