"""Durable documents behind one interface: SQLite on one machine, Redis on many."""

from deployments.store.interface import (
    Document,
    DocumentNotFound,
    DuplicateDocument,
    DuplicateIndex,
    DuplicateKey,
    Expected,
    InvalidStoreUrl,
    Store,
    StoreError,
    StoreUnavailable,
)
from deployments.store.sqlite_store import SqliteStore

__all__ = [
    "Document",
    "DocumentNotFound",
    "DuplicateDocument",
    "DuplicateIndex",
    "DuplicateKey",
    "Expected",
    "InvalidStoreUrl",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "open_store",
]

SQLITE_PREFIX = "sqlite:///"


def open_store(url: str) -> Store:
    """Return the store that a URL names, not yet connected.

    Args:
        url: `sqlite:///PATH` (an absolute PATH makes four slashes; a relative one counts from the
            working folder), `redis://[user:password@]host[:port][/db]`, or `rediss://` over TLS.

    Raises:
        InvalidStoreUrl: the URL has another form.
    """
    scheme = url.partition(":")[0]
    if url.startswith(SQLITE_PREFIX):
        return SqliteStore(url.removeprefix(SQLITE_PREFIX))
    if scheme in ("redis", "rediss"):
        # Its client takes a tenth of a second to load, by which others start sooner.
        from deployments.store.redis_store import RedisStore

        return RedisStore(url)
    raise InvalidStoreUrl(
        f"unknown store URL scheme {scheme!r}: expected sqlite:///PATH, redis://… or rediss://…"
    )
