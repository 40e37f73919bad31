"""A conflict monitor for each junction of any network."""

from __future__ import annotations

from models.networks.network import Network
from models.signals.monitor import ConflictMonitor, read_monitors
from models.signals.signalled import Signal, read_signals


def make_monitors(network: Network) -> dict[str, ConflictMonitor]:
    """Return the monitors: of the shipped network from the net itself, else from its file.

    Raises:
        ConflictError: the shipped network's own program shows a conflict.
        ValueError: the network's file does not say what a monitor needs.
    """
    if network.file is None:
        return read_monitors()
    return {name: _told_monitor(signal) for name, signal in read_signals(network).items()}


def _told_monitor(signal: Signal) -> ConflictMonitor:
    """Return a monitor for which links conflict that have an intergreen time.

    Except those that a phase shows green together, both with priority: they merge into lanes of
    their own. Where one has the letter of who gives way, it must have that letter.
    """
    places = range(len(signal.phases[0]))
    pairs = [(a, b) for a in places for b in places if a != b]
    meeting = {(a, b) for a, b in pairs if signal.intergreen[a][b] is not None}
    meeting |= {(b, a) for a, b in meeting}
    merging = {(a, b) for a, b in meeting if any(s[a] == s[b] == "G" for s in signal.phases)}
    yielding = {
        (a, b) for a, b in meeting if any(s[a] == "g" and s[b] in "gG" for s in signal.phases)
    }
    return ConflictMonitor(len(places), meeting - merging, yielding)
