"""What Greenwave has to reach beside its peers."""

from __future__ import annotations

from load_tests.bench.comparison.figures import Bar
from load_tests.bench.contenders import FASTAPI, GREENWAVE, LITSERVE, NO_OP, NUMPY
from load_tests.bench.loads import BUSY, FIVE, HUNDRED, ONE, SINGLE, SIXTEEN, SIXTY_FOUR

BARS = [
    Bar(GREENWAVE, "per_s", SIXTEEN.name, FASTAPI, ">=", 1.4),
    Bar(GREENWAVE, "per_s", SIXTEEN.name, NUMPY, ">=", 0.8),
    Bar(GREENWAVE, "per_s", SIXTEEN.name, LITSERVE, ">=", 4),
    Bar(GREENWAVE, "per_s", SIXTY_FOUR.name, FASTAPI, ">=", 1.8),
    Bar(GREENWAVE, "per_s", SIXTY_FOUR.name, NUMPY, ">=", 1.1),
    Bar(GREENWAVE, "p50_ms", ONE.name, NO_OP, "<=", 1.05),
    Bar(GREENWAVE, "per_s", BUSY.name, FASTAPI, ">=", 1),
    Bar(GREENWAVE, "per_s", FIVE.name, GREENWAVE, ">=", 4, SINGLE.name),
    Bar(GREENWAVE, "per_s", HUNDRED.name, GREENWAVE, ">=", 15, SINGLE.name),
]
