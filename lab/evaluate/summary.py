"""The result of a comparison in sentences, for readers who are not statisticians."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

from lab.evaluate.figures import EMISSIONS, MEASURES, WAITING, Figures, stops_of
from lab.evaluate.statistics import Estimate

OWN = "fixed time"  # the programs of the net
DELAY, CO2 = MEASURES["delay"], EMISSIONS["CO₂, kg"]
JAMMED = 0.9  # of the vehicles that arrive under the controller under which most arrive


def summary_of(figures: Figures, places: dict[str, str]) -> Iterator[str]:
    """Yield sentences about the controller with the least delay, in plain language.

    Args:
        places: by road, its name and direction in words.
    """
    best, *equals = figures.equals(DELAY)
    mean = figures.mean(best, DELAY)
    yield f"{capital(best)} has the least delay: each vehicle loses {mean.mean:.1f} s on average."
    if len(figures.seeds) < 2:
        yield "With a single seed, nothing is known about how certain that is."
    else:
        yield certainty(mean)
        yield (
            f"The difference from {listed(equals)} is not clear."
            if equals
            else "The difference from every other controller is clear."
        )
    yield from _against_own(figures, best)
    yield from _waits(figures, best, places)


def _against_own(figures: Figures, best: str) -> Iterator[str]:
    if best == OWN or OWN not in figures.controllers:
        return
    own, least = figures.mean(OWN, DELAY).mean, figures.mean(best, DELAY).mean
    co2, least_co2 = figures.mean(OWN, CO2).mean, figures.mean(best, CO2).mean
    change = f" and CO₂ by {1 - least_co2 / co2:.0%}" if 0 < least_co2 < co2 else ""
    saved = f"{1 - least / own:.0%}{change}"
    yield f"Compared with the net's own programs, it reduces delay by {saved}."


def _waits(figures: Figures, best: str, places: dict[str, str]) -> Iterator[str]:
    means = {name: figures.mean(best, measure).mean for name, measure in WAITING.items()}
    yield (
        f"One vehicle in twenty waits longer than {means['95th percentile']:.0f} s in total, and"
        f" the longest wait is {means['longest']:.0f} s."
    )
    if stops := figures.mean(best, stops_of).mean:
        yield f"A vehicle stops {stops:.1f} times."
    approaches = figures.approaches(best)
    if approaches:
        road, worst = next(iter(approaches.items()))
        yield (
            f"The worst approach is {places[road]}: vehicles lose {worst.wait_s:.0f} s there on"
            f" average, and up to {worst.longest_queue:.0f} stand in its queue."
        )


def warnings_of(figures: Figures) -> Iterator[str]:
    """Yield a sentence for each controller under which the city jams."""
    demanded = figures.mean(figures.controllers[0], lambda run: run.demanded).mean
    arrived = {
        each: figures.mean(each, lambda run: run.arrived).mean for each in figures.controllers
    }
    for name, number in arrived.items():
        if number < JAMMED * max(arrived.values()):
            yield (
                f"Under {name}, only {number:.0f} of {demanded:.0f} vehicles arrive: the city jams."
            )


def certainty(mean: Estimate) -> str:
    """Say what an interval means."""
    if isnan(mean.half_width):
        return ""
    low, high = mean.mean - mean.half_width, mean.mean + mean.half_width
    return (
        f"In 95 of 100 such comparisons, the true mean is within the interval, here {low:.1f} to"
        f" {high:.1f} s."
    )


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
