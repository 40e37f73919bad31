"""Generic mutants that no test has to find, each with a reason."""

from __future__ import annotations

_EVICTION = "deployments.stateful.authority.eviction"

ACCEPTED: dict[str, str] = {
    f"{_EVICTION}:Eviction.take_all: once"
    " `for run in dict.fromkeys((record.key.run for record in more)): …`": (
        "the loop around it takes the other runs, one after the other"
    ),
    f"{_EVICTION}:Eviction._expire: drop operand `records` of"
    " `records and (not self._table.used_since(run, idle_since))`": (
        "a run without states has nothing to clear"
    ),
    f"{_EVICTION}:Resets.prune: True for `old`": "deleting nothing sends nothing",
    f"{_EVICTION}:Resets.prune: drop operand `len(old) == ROWS_PER_WRITE` of"
    " `void.noted_at >= too_old or len(old) == ROWS_PER_WRITE`": (
        "the writer divides long deletions, too"
    ),
    "deployments.stateful.replica.leases:StateLeases.close: drop"
    " `await asyncio.gather(listening, committing, return_exceptions=True)`": (
        "the cancelled loops end in the next turn of the event loop"
    ),
    "deployments.stateful.replica.claims:Claims.settle_part: True for `response.wanted`": (
        "where nothing is wanted, nothing is added"
    ),
    "deployments.stateful.authority.recovery:Recovery._wait: -1 for 0 in `asyncio.sleep(0)`": (
        "both give the loop one turn"
    ),
    "deployments.stateful.authority.leadership:LeaderLease.is_valid:"
    " `self._clock() <= self._until` for `self._clock() < self._until`": "one tick of a clock",
    "deployments.stateful.authority.leadership:Leadership.first_epoch: 31 for 32 in"
    " `self._partition.generation << 32`": "31 bits are enough for the terms of a partition",
    "deployments.stateful.replica.session:Session._claim: 3 for 2 in `range(2)`": (
        "one more turn of the event loop"
    ),
    "deployments.inference.shadow:Shadow._run: True for `not self._due`": (
        "rounds are made earlier, and stepped in the same order"
    ),
    "deployments.stateful.authority.leadership:Leadership.retire: drop `self.require()`": (
        "the store refuses the write of a term that has lost the partition"
    ),
    "deployments.stateful.ray.placement:choose_node: 1 for 0 in `default=0`": (
        "without nodes, nothing is chosen in either case"
    ),
    "deployments.stateful.authority.table:StateTable.commit: -1 for 0 in"
    " `record.receipts[-1].step if record.receipts else 0`": "the first step is 1",
    "deployments.stateful.replica.batcher:Batcher._start_timer: False for"
    " `request.timer_started = True`": "of several timers of a request the first decides",
    "deployments.stateful.replica.commits:Commits._settle: True for `refused`": (
        "where nothing is refused, nothing is lost"
    ),
    "deployments.stateful.ray.placement:choose_node: -1 for 0 in `default=0`": (
        "without nodes, nothing is chosen in either case"
    ),
    "deployments.stateful.rolled_back:accept_rolled_back: flip"
    " `present.terms | {'rolled_back': generation}`": (
        "no code reads the number, and no options ask for one"
    ),
    "deployments.stateful.replica.rows:RowOutcomes.set: False for `isinstance(rows, range)`": (
        "rows of a range are noted one by one then, with the same result"
    ),
    "deployments.stateful.authority.authority:StateAuthority.read: 2 for 1 in `-1`": (
        "NumPy infers the size of a dimension from any negative number"
    ),
    "deployments.stateful.replica.rows:RowBatch.inputs: -1 for 0 in `self._parts[0]`": (
        "the inputs of every part join those of all"
    ),
    "deployments.stateful.authority.other_clusters:_read: drop operand `b''` of"
    " `await store.get(table, partition.row) or b''`": "a missing row is read like an empty one",
    "deployments.stateful.authority.eviction:Resets.voids: -1 for 0 in"
    " `0 if void is None else void.epoch`": "the epoch of every copy is above 0",
}
"""By the mutant as ``--list`` shows it."""
