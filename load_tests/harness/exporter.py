"""What Ray's exporter tells of the inference, ten seconds late at most."""

from __future__ import annotations

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families


def moves_in(page: str) -> Counter[str]:
    """Return the hidden states that each application's replicas have given back to others.

    Args:
        page: of a node's exporter, in Prometheus' format.
    """
    moves: Counter[str] = Counter()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name.endswith("inference_recalls_total"):
                moves[sample.labels["application"]] += int(sample.value)
    return moves
