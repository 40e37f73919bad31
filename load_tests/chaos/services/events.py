"""All that may happen to a whole system, by name."""

from __future__ import annotations

from load_tests.chaos.services.changes import CHANGES
from load_tests.chaos.services.deaths import DEATHS

EVENTS = {each.name: each for each in (*DEATHS, *CHANGES)}
