"""Creates and replaces documents until it is killed, and says so of each that was acknowledged.

`python -m … STORE_URL PREFIX` writes a line `key version` after every acknowledged write.
"""

import asyncio
import sys

from deployments.store import Document, open_store

TABLE = "written"
WORKERS = 8


def document(key: str, version: int) -> Document:
    """Make the document that a version consists of, long enough to be torn if that could be."""
    return Document(key, f"{key} {version} ".encode() * 100, f"index of {key}, {version}")


async def main(url: str, prefix: str) -> None:
    store = open_store(url)

    async def work(worker: int) -> None:
        n = 0
        while True:
            key = f"{prefix}-{worker}-{n}"
            await store.create(TABLE, document(key, 1))
            sys.stdout.write(f"{key} 1\n")
            sys.stdout.flush()
            await store.replace(TABLE, document(key, 2))
            sys.stdout.write(f"{key} 2\n")
            sys.stdout.flush()
            n += 1

    await asyncio.gather(*map(work, range(WORKERS)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
