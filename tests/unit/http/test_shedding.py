"""The limit follows the delay: no queue of seconds, and no refusal while there is none."""

from deployments.http.shedding import MIN_LIMIT, PERIOD_S, TARGET_S, AdaptiveLimit


class Process:
    """One event loop, whose turns take as long as what is at work in them.

    Args:
        takes_s: a request.
        reading_s: of a request, refused or not.
    """

    def __init__(self, limit: AdaptiveLimit, takes_s: float, reading_s: float = 0.0) -> None:
        self.limit = limit
        self.takes_s = takes_s
        self.reading_s = reading_s
        self.now_s = 0.0

    def turn(self, clients: int) -> int:
        """Take a request of each; return how many were admitted."""
        self.now_s += clients * self.reading_s
        waited_s = clients * self.reading_s
        admitted = 0
        for _ in range(clients):
            self.limit.note(waited_s, admitted, self.now_s)
            if admitted < self.limit.now:
                admitted += 1
                waited_s += self.takes_s
                self.now_s += self.takes_s
        return admitted

    def turns(self, clients: int, seconds: float) -> list[int]:
        until_s, admitted = self.now_s + seconds, []
        while self.now_s < until_s:
            admitted.append(self.turn(clients))
            self.now_s += 1e-4
        return admitted


def test_what_keeps_the_target_is_never_refused():
    process = Process(AdaptiveLimit(1000), takes_s=1e-4)
    assert set(process.turns(clients=256, seconds=5)) == {256}


def test_beyond_that_as_many_are_admitted_as_the_target_allows():
    process = Process(AdaptiveLimit(1000), takes_s=1e-4, reading_s=2e-5)
    process.turns(clients=1800, seconds=5)
    settled = process.turns(clients=1800, seconds=5)
    fits = (TARGET_S - 1800 * 2e-5) / 1e-4
    assert 0.5 * fits < min(settled)
    assert max(settled) < 1.5 * fits


def test_some_are_admitted_however_slow_the_machine_is():
    process = Process(AdaptiveLimit(1000), takes_s=0.01, reading_s=1e-3)
    process.turns(clients=500, seconds=60)
    assert min(process.turns(clients=500, seconds=60)) == MIN_LIMIT


def test_when_the_load_has_gone_the_limit_comes_back():
    limit = AdaptiveLimit(1000)
    process = Process(limit, takes_s=2e-4)
    process.turns(clients=1800, seconds=5)
    assert limit.now < 700
    process.turns(clients=10, seconds=10)
    assert limit.now == 1000


def test_one_long_wait_halves_it_at_most():
    limit = AdaptiveLimit(1000)
    limit.note(0.0, 999, 1.0)
    limit.note(60.0, 999, 1.0 + PERIOD_S / 2)
    limit.note(0.0, 0, 1.0 + PERIOD_S)
    assert limit.now == 999 / 2


def test_it_never_exceeds_what_was_asked_for():
    limit = AdaptiveLimit(2)
    process = Process(limit, takes_s=1.0)
    process.turns(clients=10, seconds=100)
    assert limit.now == 2
