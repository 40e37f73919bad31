"""The one interface of everything that is kept: customer records, users, hidden-state snapshots."""

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
    """The store cannot serve now; a write that raises this may or may not have been applied."""


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
    """A second unique name to find the document by (not empty), or None."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The condition of a change: what the table has under one key."""

    key: str
    value: bytes | None
    """The whole value, or None: no document has the key."""


class Store(Protocol):
    """Tables of documents, and counters. A table exists as soon as something is in it.

    Every method raises StoreUnavailable, within seconds, when the store cannot serve. A method that
    returned is durable; one that raised wrote a document whole or not at all. Nothing connects
    before the first call, and a pickled store arrives unconnected, so that a store can be made in
    one process and used in another. One store object belongs to one event loop.
    """

    async def create(self, table: str, document: Document) -> None:
        """Add a document.

        Raises:
            DuplicateIndex: the index value is taken (checked first).
            DuplicateKey: the key is taken.
        """

    async def create_many(
        self, table: str, documents: Sequence[Document]
    ) -> list[DuplicateDocument | None]:
        """Add many documents fast; return None for each that was created, else its refusal."""

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

    async def put_many(self, table: str, values: Mapping[str, bytes]) -> None:
        """Write documents without an index, new or not; atomic per document, not as a whole."""

    async def delete_many(self, table: str, keys: Collection[str]) -> int:
        """Delete the documents with these keys; return how many there were."""

    async def change(
        self,
        table: str,
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        when: Expected,
    ) -> bool:
        """Write and delete documents, all or none, if `when` holds; return whether it held.

        Everything happens at one moment, the look at the condition too. As with `put_many`, a
        document that is written has no index, or keeps the one it had. A key that is both written
        and deleted is written; one to be deleted need not exist. The store is held for all of it:
        a change of thousands of documents is well, of hundreds of thousands is not.

        A change that raised may have been made, or may be made later. A caller that must know gives
        the document of the condition a new value with every change: once a later change has held,
        the one that raised can no longer be made, and the value found meanwhile says if it was.
        """

    def scan(self, table: str) -> AsyncIterator[tuple[str, bytes]]:
        """Yield key and value of every document, as the table was at one moment, in any order."""

    async def increment(self, counter: str, lifetime_s: float) -> int:
        """Add one to a counter that starts at 0 and is forgotten `lifetime_s` after its first step.

        Returns:
            The count, this step included. Concurrent steps get different counts.
        """

    async def reset(self, counter: str) -> None:
        """Forget a counter."""

    async def close(self) -> None:
        """Let go of threads and connections; the next call opens them again."""
