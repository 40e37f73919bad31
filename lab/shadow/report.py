"""The report of a shadow run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lab.shadow.findings import POLICY, Findings, Span
from lab.shadow.log import in_words
from lab.tables import markdown

if TYPE_CHECKING:
    from lab.shadow.estimate import Saved


class Section(NamedTuple):
    """A part of the report: sentences, and a table if it has rows."""

    title: str
    sentences: Sequence[str]
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def sections(findings: Findings, saved: Saved | None) -> list[Section]:
    """Return the parts of the report.

    Args:
        saved: the estimate of the delay; None where it was not asked for.
    """
    spans = [
        (each.segment.segment, each.segment.reason, *_times(each), each.records)
        for each in findings.spans
    ]
    refusals = [(*each, number) for each, number in sorted(findings.refusals.items())]
    faults = [
        (*each, _share(number, findings.readings[each.junction]), in_words(findings.first[each]))
        for each, number in sorted(findings.faults.items())
    ]
    shown = "segment", "begins with", "first record", "last record", "records"
    failed = "junction", "lane", "fault", "of the decisions", "first"
    agreement = [
        (name, total, _share(findings.agreed[name], total))
        for name, total in sorted(findings.compared.items())
    ]
    return [
        _section("Log", _log(findings), shown, spans),
        _section(
            "Agreement", _agreement(findings), ("junction", "decisions", "agreement"), agreement
        ),
        _section("Safety layer", _safety(findings), ("junction", "rule", "refused"), refusals),
        _section("Detectors", _detectors(findings), failed, faults),
        _section("Delay saved (estimate)", _delay(saved)),
    ]


def _section(
    title: str,
    sentences: Iterable[str],
    head: Sequence[str] = (),
    rows: Iterable[Sequence[object]] = (),
) -> Section:
    return Section(title, list(sentences), head, [[str(cell) for cell in row] for row in rows])


def _log(found: Findings) -> Iterator[str]:
    if found.is_blind:
        yield (
            "All detectors of all junctions have failed, at most decisions: the figures below do"
            " not show how the policy performs with working detectors."
        )
    total, answered = found.decisions.total(), found.decisions[POLICY]
    yield f"{total} decisions, {answered} with a recommendation."
    for reason, number in sorted(found.decisions.items()):
        if reason != POLICY:
            yield f"{number} decisions without one: {reason}."


def _times(span: Span) -> tuple[str, str]:
    return (in_words(span.begin_s), in_words(span.end_s)) if span.records else ("", "")


def _agreement(found: Findings) -> Iterator[str]:
    total = found.compared.total()
    if not total:
        yield "No recommendation was made at which the controller could change its phase."
        return
    yield (
        f"The controller did what the policy recommended at {_share(found.agreed.total(), total)}"
        f" of the {total} decisions at which it could change."
    )


def _safety(found: Findings) -> Iterator[str]:
    if found.not_judged:
        yield f"The safety layer was not asked: {found.not_judged}."
        return
    refused = found.refusals.total()
    yield (
        f"The safety layer would have refused {refused} of {found.judged} recommendations"
        f" ({_share(refused, found.judged)}), with what the junctions showed under the controller."
    )


def _detectors(found: Findings) -> Iterator[str]:
    if found.not_diagnosed:
        yield f"The detectors were not diagnosed: {found.not_diagnosed}."
        return
    for name, number in sorted(found.blind.items()):
        if number:
            yield (
                f"All detectors of {name} had failed at {number} of its"
                f" {found.readings[name]} decisions: recommendations there use no reading."
            )
    if not found.faults:
        yield "No detector has failed."


def _delay(saved: Saved | None) -> Iterator[str]:
    if saved is None:
        yield "Not asked for: add --net, the SUMO network, and --policy, the policy's file."
        return
    if not saved.vehicles:
        yield "No vehicle was counted, so no delay could be saved."
        return
    yield (
        f"About {saved.saved} s per vehicle less with the policy ({saved.policy} s) than with the"
        f" net's programs ({saved.programs} s): mean and 95 % interval of {saved.seeds} simulations"
        " of each."
    )
    yield (
        f"Simulated is {in_words(saved.begin_s)} to {in_words(saved.end_s)} with {saved.vehicles}"
        f" vehicles (mean of the seeds), sampled to meet {saved.counted} counted ones;"
        f" {saved.fits} of {saved.of} counts of all seeds have a GEH below 5."
    )
    yield (
        "The controller is taken to follow the net's programs. Where vehicles queue over the loops,"
        " counts are below the demand, and so is the estimate."
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def as_text(report: Sequence[Section]) -> str:
    """Return the report as Markdown."""
    return "\n".join(_text_of(each) for each in report)


def _text_of(section: Section) -> str:
    lines = [f"## {section.title}", "", *section.sentences]
    if section.rows:
        lines += ["", *markdown(section.head, section.rows, texts=len(section.head))]
    return "\n".join([*lines, ""])
