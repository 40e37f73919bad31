"""The comparison as tables in Markdown, and their place in a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from load_tests.bench.comparison.figures import Bar, Turn, Turns, median, median_under

Cell = Callable[[str, Sequence[Turn]], str]
"""What stands in one column, from a contender's name and turns."""

FIGURES = {"per_s": "predictions/s", "p50_ms": "p50"}
NONE = "-"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table: the first column to the left, the others to the right."""
    rules = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rules, *rows))


def contenders_table(turns: Turns, columns: Mapping[str, Cell]) -> str:
    """Lay out a row for each contender, with these columns by their headings."""
    rows = (
        [name, *(cell(name, each) for cell in columns.values())] for name, each in turns.items()
    )
    return table(["medians", *columns], rows)


def under(load: str, figure: str, digits: int = 2) -> Cell:
    """Make a column of a figure under a load."""

    def cell(name: str, turns: Sequence[Turn]) -> str:
        value = median_under(turns, load, figure)
        return NONE if value is None else f"{value:.{digits}f}"

    return cell


def rate(load: str, ours: Sequence[Turn]) -> Cell:
    """Make a column of the throughput under a load, and how many times it ours is."""
    own = median_under(ours, load, "per_s")

    def cell(name: str, turns: Sequence[Turn]) -> str:
        value = median_under(turns, load, "per_s")
        if value is None:
            return NONE
        beside = "" if own is None or turns is ours else f" ({own / value:.2f} ×)"
        return f"{value:.0f}{beside}"

    return cell


def whole(figure: str, digits: int = 0, unit: float = 1.0) -> Cell:
    """Make a column of a figure of the turn itself, in a unit."""
    return lambda name, turns: f"{median(turns, figure) / unit:.{digits}f}"


def bars_table(turns: Turns, bars: Iterable[Bar]) -> str:
    """Tell of each bar whose both sides were measured how far it is met."""
    header = ["bar", "wanted", "measured", ""]
    return table(header, (row for bar in bars for row in _verdict(turns, bar)))


def replace_section(page: str, name: str, content: str) -> str:
    """Return the page with other content between its comments ``name`` and ``end of name``.

    Raises:
        ValueError: the page does not have both, once each.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"the page needs one {begin} and one {end}")
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{content.strip()}\n\n{end}{rest.partition(end)[2]}"


def _verdict(turns: Turns, bar: Bar) -> Iterator[list[str]]:
    ratio = bar.measured(turns)
    if ratio is not None:
        yield [
            f"{bar.contender}, {FIGURES[bar.figure]} at {bar.load}",
            f"{bar.comparison} {bar.ratio:g} × {bar.peer_load or bar.peer}",
            f"{ratio:.2f} ×",
            "met" if bar.is_met_by(ratio) else "missed",
        ]
