"""The copies of hidden states in a store."""

from deployments.stateful.shards import name_of_copy, table_of
from deployments.store import Store

_STEP = slice(8, 16)  # after the life; see RowForm


async def copied_steps(store: Store, app: str) -> list[int]:
    """Return the steps of each state of an application, as of its copy."""
    rows = [row async for row in store.scan(table_of(app))]
    return [int.from_bytes(value[_STEP], "little") for name, value in rows if name_of_copy(name)]
