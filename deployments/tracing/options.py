"""Where traces go, and how many."""

from __future__ import annotations

from typing import NamedTuple


class TracingOptions(NamedTuple):
    """What a process needs to know to take part in traces.

    Attributes:
        endpoint: base URL of an OTLP receiver over HTTP.
        share: of the requests that come without a trace of their sender, from 0 to 1.
    """

    endpoint: str
    share: float
