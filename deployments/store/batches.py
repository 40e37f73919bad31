"""Bulk work in pieces, so that no single command holds the store for long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

BATCH = 1000


def batches(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in their order, in lists of at most `BATCH`."""
    iterator = iter(items)
    while batch := list(islice(iterator, BATCH)):
        yield batch
