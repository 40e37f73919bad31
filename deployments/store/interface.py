"""The interface of stores: of customer records, users, tokens and hidden-state snapshots."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeVar


class StoreError(Exception):
    """Base of every error that a store raises."""


class InvalidStoreUrl(StoreError, ValueError):
    """The URL does not name a store; the message says why, without the URL's password."""


class StoreUnavailable(StoreError):
    """The store cannot serve now; a write that raises this may have been applied."""


class DocumentNotFound(StoreError):
    """No document of the table has this key."""

    def __init__(self, table: str, key: str) -> None:
        super().__init__(f"no document {key!r} in {table}")


class DuplicateDocument(StoreError):
    """Another document of the table already has one of the unique values; nothing was written."""

    def __init__(self, table: str, value: str) -> None:
        super().__init__(f"{table} already has a document with {value!r}")
        self.table = table
        self.value = value


class DuplicateKey(DuplicateDocument):
    """The key is taken."""


class DuplicateIndex(DuplicateDocument):
    """The index value is taken by a document with another key."""


T = TypeVar("T")
Puts = Mapping[str, bytes]
Keys = Collection[str]

BATCH = 1000


def batches(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in their order, in lists of at most `BATCH`."""
    iterator = iter(items)
    while batch := list(islice(iterator, BATCH)):
        yield batch


@dataclass(frozen=True, slots=True)
class Document:
    """Bytes under a key, both unique in their table."""

    key: str
    value: bytes
    index: str | None = None
    """A second unique name, not empty, or None."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The condition of a change: the current value of one key."""

    key: str
    value: bytes | None
    """None: no document has the key."""


ALWAYS = Expected("", None)  # no document has the empty key


class Store(Protocol):
    """Tables of documents, and counters. A table exists as soon as it has a document.

    Every method raises StoreUnavailable, within seconds, when the store cannot serve. What a method
    has written when it returns is durable; one that raises wrote each document whole or not at all.
    A store connects with its first call and is pickled unconnected, so that it can be created in
    one process and used in another. A store object belongs to one event loop.
    """

    @property
    def identity(self) -> str:
        """The place of the documents, the same for every store object of it; without a password."""

    @property
    def is_local(self) -> bool:
        """Whether only processes of this machine can use the store."""

    async def create(self, table: str, document: Document) -> None:
        """Add a document.

        Raises:
            DuplicateIndex: the index value is taken (checked first).
            DuplicateKey: the key is taken.
        """
        (error,) = await self.create_many(table, [document])
        if error is not None:
            raise error

    async def create_many(
        self, table: str, documents: Sequence[Document]
    ) -> list[DuplicateDocument | None]:
        """Add many documents; return None or an error for each."""

    async def get(self, table: str, key: str) -> bytes | None:
        """Return the value of the document with this key, or None."""

    async def get_by_index(self, table: str, index: str) -> bytes | None:
        """Return the value of the document with this index value, or None."""

    async def replace(self, table: str, document: Document) -> None:
        """Replace value and index of the document with this key, at once.

        Raises:
            DocumentNotFound: no document has the key.
            DuplicateIndex: another document has the new index value.
        """

    async def delete_by_index(self, table: str, index: str) -> bool:
        """Delete the document with this index value; return False when there is none."""

    async def change(
        self, table: str, puts: Puts, deletes: Keys = (), *, when: Expected = ALWAYS
    ) -> bool:
        """Write and delete documents in one transaction if `when` holds; return whether it held.

        A written document has no index, or keeps the one it had. A key that is both written and
        deleted is written; a deleted one need not exist. The transaction blocks the store: change
        thousands of documents, not hundreds of thousands.

        A change that raised may have been applied, or may be applied later. To find out, give the
        document of the condition a new value with every change: once a later change has held, the
        one that raised cannot be applied any more, and the value shows whether it was.
        """

    def scan(self, table: str) -> AsyncIterator[tuple[str, bytes]]:
        """Yield key and value of every document of one moment, in any order."""

    async def increment(self, counter: str, lifetime_s: float) -> int:
        """Add one to a counter, which expires `lifetime_s` after its first step.

        Returns:
            The new count. Concurrent steps get different counts.
        """

    async def count(self, counter: str) -> int:
        """Return the count of a counter; one that was never incremented, or has expired, has 0."""

    async def reset(self, counter: str) -> None:
        """Delete a counter."""

    async def close(self) -> None:
        """Close threads and connections; the next call opens them again."""
