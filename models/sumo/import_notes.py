"""Remarks on an imported network: a sentence each, and not ten thousand of one kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

TOLD_OF_A_KIND = 5


class Notes:
    """Gathers remarks by kind, each once."""

    def __init__(self) -> None:
        self._of_kind: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def add(self, kind: str, sentence: str) -> None:
        self._of_kind[kind][sentence] = None

    def sentences(self) -> Iterator[str]:
        """Yield some remarks of each kind, and how many more there are."""
        for sentences in self._of_kind.values():
            yield from list(sentences)[:TOLD_OF_A_KIND]
            more = len(sentences) - TOLD_OF_A_KIND
            if more > 0:
                yield f"... and {more} more remarks like that."
