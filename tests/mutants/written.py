"""The defects: each replaces a text that a module of the engine has once."""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Mutant(NamedTuple):
    """A defect of a module in deployments/stateful."""

    name: str
    file: str
    old: str
    new: str

    @property
    def path(self) -> str:
        return f"deployments/stateful/{self.file}.py"

    def changed(self, source: str) -> str:
        assert source.count(self.old) == 1, f"{self.file} does not have once: {self.old}"
        return source.replace(self.old, self.new)


# fmt: off
MUTANTS = [Mutant(*each) for each in (
    # What a write compares, and what it counts
    ("rows that have changed are written", "table", "if number != read.number + 1:", "if False:"),
    ("one transaction between is missed", "table", "read.number + 1", "read.number + 2"),
    ("a state that is made again is the same", "table", "rows.live(at, txn.id())", "rows.live(at, 1)"),
    ("imported states are the same", "table", "life + row[8:]", "row"),
    ("a step exceeds the limit", "table", "if n_new and n_new > room", "if n_new and n_new > room + 1"),
    ("an import exceeds the limit", "table", "more > min(limit - n_states, free := self._room())", "more > (free := self._room())"),
    ("a lower limit stops states", "table", "if n_new and n_new > room", "if n_new > room"),
    ("evicted states are counted", "table", "-len(removed)", "0"),
    ("the folder is filled up", "table", "(size - used - self._reserve)", "(1 << 40)"),
    ("a full file stops all states", "table", "if not new:", "if new:"),
    ("the term does not matter", "table", "self.page.require_valid()", "pass"),
    ("a row fills a page", "table", "return puts[::2] + puts[1::2]", "return puts"),
    ("a reset is one of runs that begin alike", "table", '_remove(txn, operation.run.encode() + b"\\0")', "_remove(txn, operation.run.encode())"),
    # The log
    ("states aside are not logged", "table", "[name for name, _ in puts]", "names"),
    ("removed states are not logged", "table", "list({**dict.fromkeys(removed), **rows})", "list(rows)"),
    ("evicted states are not logged", "table", "self.page.note(txn.id(), removed)", "pass"),
    ("what is not copied is forgotten", "page", "if copied_end and since >= read_to:", "if copied_end:"),
    ("what is copied is kept", "page", "if copied_end and since >= read_to:", "if False:"),
    ("the log does not tell that it is too short", "page", "if not min(self.forgotten, latest) <= since <= latest:", "if False:"),
    ("the log exceeds its memory", "page", "if begin + len(joined) > self.SIZE:", "if False:"),
    ("names before the last copy are copied again", "page", "if number > since:", "if True:"),
    # Operations
    ("an operation is done again", "table", "if known is not None:\n                    txn.abort()", "if False:\n                    txn.abort()"),
    ("operations are remembered for ever", "table", "counts[2] % OPERATIONS", "counts[2]"),
    ("operations of two kinds have one key", "table", '"\\0".join(self)', '"\\0".join(self[1:])'),
    ("a fork does not ask whether it was done", "engine", "if known is not None:\n                return dict(known)", "if False:\n                return dict(known)"),
    ("a fork has receipts", "engine", "self.form.without_receipts(raw)", "raw"),
    ("an older state is read", "engine", 'states.setdefault(key_of(name).entity, (int(row["step"]), row["state"]))', 'states[key_of(name).entity] = int(row["step"]), row["state"]'),
    ("a run is cut where a page ends", "table", "groupby(rows + page, _run_of)", "groupby(page, _run_of)"),
    # Receipts
    ("63 keys are remembered", "row", "RECEIPTS = 64", "RECEIPTS = 63"),
    ("receipts of a batch take one place", "row", 'rows["n"][places] = n + np.uint32(1)', "pass"),
    ("receipts of a few rows take one place", "row", "n = (n + 1) & _LOW", "pass"),
    ("a row without a key has a receipt", "row", " & (wanted != 0)", ""),
    ("one of a few rows without a key has a receipt", "row", "raw.find(digest, start, end) if id else -1", "raw.find(digest, start, end)"),
    ("a few rows have no receipts", "row", "if where >= 0:", "if False:"),
    ("a key is found across two", "row", "while where >= 0 and (where - start) % _ID.size:", "while False:"),
    ("a receipt's step is before the state's", "row", "step += (low - step + _HALF) % (2 * _HALF) - _HALF", "step -= (step - low) & 0xFFFFFFFF"),
    ("another observation is answered", "turn", "if receipt.print != keyed.prints[row]:", "if False:"),
    # Over a connection
    ("states aside are lists", "remote", "{at: (name, row) for at, (name, row) in aside.items()}", "dict(aside)"),
    ("what a replica has kept is answered", "turn", "if not read.number and len(self._changed) < len(self._names):", "if False:"),
    # Turns
    ("rows that lost a race are answered", "turn", "if place in raced or place in refused:", "if place in refused:"),
    ("rows that lost a race change places", "batcher", "extendleft(reversed(again))", "extendleft(again)"),
    ("a cancelled request is stepped", "batcher", "if not piece.done():", "if True:"),
    ("a sequence need not be begun", "turn", "if row not in known and not steps[row]:", "if False:"),
    ("policies share their states", "turn", "if other:\n            left", "if False:\n            left"),
    ("a policy begins anew", "turn", "if name in kept:", "if False:"),
    ("what the model refuses is kept", "turn", "isinstance(output, StateError)}", "False}"),
    ("a turn has no end", "batcher", "MAX_ROWS = 512", "MAX_ROWS = 1 << 30"),
    ("requests do not wait for their table", "batcher", "if now - self._unavailable_since < LONGEST_OUTAGE_S:", "if False:"),
    ("requests wait for ever", "batcher", "if now - self._unavailable_since < LONGEST_OUTAGE_S:", "if True:"),
    ("a response does not wait for its copy", "batcher", "if self._batcher.durable:", "if False:"),
    ("a repeated response does not wait for its copy", "turn", "self.number = read.number\n", "self.number = 0\n"),
    ("rows that are stepped again fail", "batcher", "turn.fail(error)\n", "self._fail(turn, error)\n"),
    ("a step does not prolong its run", "row", 'rows["used"][places] = now', "pass"),
    ("one of few steps does not prolong its run", "row", "variant, zero, now, n)", "variant, zero, _, n)"),
)]
# fmt: on
