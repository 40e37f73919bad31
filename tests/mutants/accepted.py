"""Generic mutants that no test has to find, each with a reason."""

from __future__ import annotations

ACCEPTED: dict[str, str] = {}
"""By the mutant as ``--list`` shows it."""
