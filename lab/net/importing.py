"""Makes a network file of a SUMO network, with remarks about what needs attention."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from lab.net.intergreen import WALKS_AT, YELLOWS_S, intergreen_of, yellow_after
from lab.net.nema import nema_stages
from lab.net.net import SumoLink, SumoNet, read_sumo_net
from lab.net.program import Program
from lab.net.stages import merged_states, stages_of
from models.maps.phases_in_words import origin_in_words, ways_in_words
from models.networks.file import InvalidNetworkError
from models.networks.form import (
    ID_MARKS,
    LONGEST_ID,
    JunctionEntry,
    Lane,
    LaneBehind,
    Link,
    NetworkFile,
    Phase,
    Point,
)
from models.signals.states import YELLOW_S

SIGNALS_OF_RAILWAYS = {"rail_signal", "rail_crossing"}
DETECTED_M = 50.0  # some standing cars; a stub of a metre has no room for one
SHOWN_OF_A_KIND = 5
_NAME_LENGTH = 200

Remark = Callable[[str, str], None]  # kind of remark, and the sentence


class Remarks:
    """Gathers remarks by kind, each once."""

    def __init__(self) -> None:
        self._of_kind: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def add(self, kind: str, sentence: str) -> None:
        self._of_kind[kind][sentence] = None

    def __iter__(self) -> Iterator[str]:
        """Yield all remarks."""
        return (sentence for sentences in self._of_kind.values() for sentence in sentences)

    def sentences(self) -> Iterator[str]:
        """Yield some remarks of each kind, and how many more there are."""
        for sentences in self._of_kind.values():
            yield from list(sentences)[:SHOWN_OF_A_KIND]
            more = len(sentences) - SHOWN_OF_A_KIND
            if more > 0:
                yield f"... and {more} more remarks like that."


def import_network(
    path: str | os.PathLike[str],
    name: str | None = None,
    signals: Collection[str] | None = None,
    program: str | None = None,
    pedestrian_calls: bool = False,
    additional: tuple[Path, ...] = (),
    walks_at: float = WALKS_AT,
    red_yellow_s: int = 0,
) -> tuple[NetworkFile, Remarks]:
    """Derive a network file from a SUMO network.

    Args:
        name: of the network; of the file by default.
        signals: to restrict it to, all by default.
        program: id of the programs to take; a signal without it, and all by default, takes its
            last one.
        pedestrian_calls: whether policies observe who waits at the crossings.
        additional: SUMO files that are read after the net and may have further programs.
        walks_at: m/s of pedestrians who clear a crossing.
        red_yellow_s: in which the safety layer shows red and yellow before a green.

    Raises:
        InvalidNetworkError: it is not a SUMO network, has no signal to control, lacks one of
            ``signals`` or the program, or has ids that a network file does not allow.
    """
    net, remarks = read_sumo_net(path, additional), Remarks()
    known = dict.fromkeys(each.id for programs in net.programs.values() for each in programs)
    if program is not None and program not in known:
        raise InvalidNetworkError(f"{path} has no program {program}; it has {', '.join(known)}.")
    if unknown := [each for each in signals or () if each not in net.programs]:
        raise InvalidNetworkError(f"{path} has no signal {unknown[0]}.")
    wanted = [each for each in net.programs if signals is None or each in signals]
    try:
        junctions: list[JunctionEntry] = []
        for signal in wanted:
            taken = _choose(net.programs[signal], signal, program, remarks.add)
            entry = junction_of(net, signal, taken, len(junctions), remarks.add, walks_at)
            if waut := net.switched.get(signal):
                sentence = f"{signal}: the WAUT {waut}, which switches its programs, is left out."
                remarks.add("WAUT", sentence)
            if entry is not None:
                junctions.append(entry)
        for signal in net.links if signals is None else ():
            if signal not in net.programs:
                sentence = f"{signal} is left out: it has no program, like all signals of railways."
                remarks.add("left out", sentence)
        if not junctions:
            raise InvalidNetworkError(_nothing_to_control(path, net, remarks))
        file = NetworkFile(
            name=name or _stem(path),
            junctions=tuple(junctions),
            pedestrian_calls=pedestrian_calls,
            red_yellow_s=red_yellow_s,
            program=program,
            remarks=tuple(remarks),
        )
    except ValidationError as error:
        raise InvalidNetworkError(f"{path}: {_first(error)}") from error
    return file, remarks


def _choose(programs: list[Program], signal: str, wanted: str | None, remark: Remark) -> Program:
    taken = next((each for each in reversed(programs) if each.id == wanted), programs[-1])
    if len(programs) > 1:
        names = ", ".join(each.id for each in programs)
        remark("programs", f"{signal} has the programs {names}; {taken.id} is taken.")
    for sentence in taken.remarks:
        remark(sentence, f"{signal}: {sentence}.")
    return taken


def junction_of(
    net: SumoNet,
    signal: str,
    program: Program,
    agent_index: int,
    remark: Remark,
    walks_at: float = WALKS_AT,
) -> JunctionEntry | None:
    """Return a signal's entry, None where there is nothing to control; what is odd is a remark."""
    links = _usable_links(net, signal, program, remark)
    lanes = dict.fromkeys(each.lane for each in links if not each.walked and each.lane[0] != ":")
    if program.kind in SIGNALS_OF_RAILWAYS or not lanes:
        kind = program.kind if lanes else "signal without lanes of vehicles"
        remark("left out", f"{signal} is left out: it is a {kind}.")
        return None
    conflicts = _conflicts(net, links)
    pairs: Mapping[str, str] = {}
    if program.kind == "NEMA":
        pairs, sentences = nema_stages(program, conflicts)
        for sentence in sentences:
            remark("NEMA", f"{signal}: {sentence}.")
    walked = {link.index for link in links if link.walked}
    states = tuple(pairs) or _green_states(program, signal, walked, remark)
    served = [lane for lane in lanes if _is_served(lane, links, states)]
    if len(states) < 2 or not served:
        count = {0: "no stage", 1: "one stage"}.get(len(states), "no lane with green")
        remark("left out", f"{signal} is left out: it has {count}, and nothing to decide.")
        return None
    _remark_on_links(signal, links, states, remark)
    for lane in lanes.keys() - set(served):
        remark("never green", f"{signal}: lane {lane} never gets green and is left out.")
    for lane in lanes:
        if round(net.lanes[lane].speed_limit * 3.6) > YELLOWS_S[-1][0]:
            remark("fast", f"{signal}: {lane} allows more than 70 km/h; its yellow is 5 s.")
    return JunctionEntry(
        id=signal,
        agent_index=agent_index,
        phases=tuple(
            Phase(state=state, name=_in_words(net, links, state, pairs.get(state)))
            for state in states
        ),
        lanes=tuple(_lane(net, each) for each in served),
        position=_position(net, signal, served),
        links=_links(net, links, len(states[0])),
        intergreen_s=intergreen_of(net, signal, links, len(states[0]), remark, walks_at),
        conflicts=conflicts,
    )


def _conflicts(net: SumoNet, links: list[SumoLink]) -> tuple[tuple[int, int], ...] | None:
    """Return pairs of letters whose vehicles can meet, None where the net does not say."""
    letters = {lane: link.index for link in links for lane in net.inner_lanes(link)}
    pairs = {
        (min(letters[a], letters[b]), max(letters[a], letters[b]))
        for a, b in net.foes
        if a in letters and b in letters and letters[a] != letters[b]
    }
    return tuple(sorted(pairs)) if letters else None


def _lane(net: SumoNet, name: str) -> Lane:
    own, behind = net.lanes[name], lanes_behind(net, name)
    capacity = own.capacity + sum(net.lanes[each].capacity * behind[each] for each in behind)
    return Lane(
        id=name,
        capacity=capacity,
        behind=tuple(LaneBehind(lane=each, share=behind[each]) for each in behind) or None,
        shape=own.shape or None,
    )


def lanes_behind(net: SumoNet, lane: str) -> dict[str, float]:
    """Return the lanes before a stop line that is nearer than DETECTED_M, and their shares.

    A lane that leads to several shares its vehicles evenly among them. A lane from which a signal
    lets vehicles go belongs to that signal.
    """
    behind: dict[str, float] = {}
    reached = [(lane, 1.0, net.lanes[lane].length_m)]
    while reached:
        here, share, length_m = reached.pop()
        if length_m >= DETECTED_M:
            continue
        for before in sorted(net.behind.get(here, ())):
            if before in net.lanes and before != lane and before not in behind:
                behind[before] = share / len(net.ahead[before])
                onwards_m = length_m + net.lanes[before].length_m
                reached.append((before, behind[before], onwards_m))
    return behind


def _green_states(
    program: Program, signal: str, walked: Collection[int], remark: Remark
) -> tuple[str, ...]:
    """Return the stages; each other green state of the program is a remark."""
    for state, reason in merged_states(program, walked).items():
        remark("merged", f"{signal}: {state} is not an action, as {reason}.")
    return stages_of(program, walked)


def _usable_links(net: SumoNet, signal: str, program: Program, remark: Remark) -> list[SumoLink]:
    """Return the links in the order of their indices, those of one index in that of the file."""
    links = sorted(net.links.get(signal, ()), key=lambda link: link.index)
    size = len((program.states or ("",))[0])
    for link in links:
        if link.lane not in net.lanes:
            sentence = f"{signal}: link {link.index} comes from {link.lane}, which is not a lane."
            remark("no lane", sentence)
        if link.index >= size:
            remark("no letter", f"{signal}: its program has no letter for link {link.index}.")
    return [link for link in links if link.lane in net.lanes and link.index < size]


def _remark_on_links(
    signal: str, links: list[SumoLink], states: Collection[str], remark: Remark
) -> None:
    for link in links:
        if link.walked and not any(state[link.index] in "Gg" for state in states):
            remark("never walk", f"{signal}: crossing {link.to_edge} never gets green.")
    if any("s" in state for state in states):
        remark("on red", f"{signal}: right turns on red stay as the states say, and are no green.")


def _is_served(lane: str, links: Iterable[SumoLink], states: Iterable[str]) -> bool:
    indices = [link.index for link in links if link.lane == lane]
    return any(state[index] in "Gg" for state in states for index in indices)


def _links(net: SumoNet, links: list[SumoLink], size: int) -> tuple[Link, ...]:
    """Return the links, with their indices where these are not their places in the list."""
    in_order = [link.index for link in links] == list(range(size))
    return tuple(
        Link(
            lane=each.lane,
            to=each.to,
            turn=each.turn,
            index=None if in_order else each.index,
            shape=net.way(each) or None if each.walked else None,
            yellow_s=_yellow_s(net, each),
        )
        for each in links
    )


def _yellow_s(net: SumoNet, link: SumoLink) -> int | None:
    """Return the yellow of a way, None if it is the usual one."""
    yellow_s = yellow_after(net, link)
    return None if yellow_s == YELLOW_S else yellow_s


def _position(net: SumoNet, signal: str, lanes: Collection[str]) -> Point | None:
    """Return the junction's place, of a joined signal the middle of its stop lines."""
    if signal in net.places:
        return net.places[signal]
    ends = [net.lanes[each].shape[-1] for each in lanes if net.lanes[each].shape]
    if not ends:
        return None
    return tuple(round(sum(axis) / len(ends), 2) for axis in zip(*ends, strict=True))


def _in_words(
    net: SumoNet, links: Iterable[SumoLink], state: str, pair: str | None = None
) -> str | None:
    """Return what is green in words: ``2+6: north and south; 2 crossings``.

    Args:
        pair: of NEMA phases that the state shows.
    """
    green = [link for link in links if state[link.index] in "Gg"]
    ways = (
        (origin_in_words(net.lanes[link.lane].shape), link.turn.lower(), link in green)
        for link in links
        if not link.walked and link.turn != "t"
    )
    parts = [f"{pair}: {ways_in_words(ways)}" if pair else ways_in_words(ways)]
    if walked := sum(link.walked for link in green):
        parts.append(f"{walked} crossings" if walked > 1 else "a crossing")
    return "; ".join(part for part in parts if part)[:_NAME_LENGTH] or None


def _stem(path: str | os.PathLike[str]) -> str:
    return Path(path).name.removesuffix(".gz").removesuffix(".xml").removesuffix(".net") or "city"


def _nothing_to_control(path: str | os.PathLike[str], net: SumoNet, remarks: Remarks) -> str:
    if not net.programs:
        return f"{path} has no signals."
    return "\n".join([f"{path} has no signal to control.", *remarks.sentences()])


def _first(error: ValidationError) -> str:
    mistake = error.errors(include_url=False)[0]
    value = mistake["input"]
    if mistake["type"] == "string_pattern_mismatch" and mistake["loc"][-1] in ("id", "lane", "to"):
        may = f"may have letters, digits and {ID_MARKS} only"
        if len(value) > LONGEST_ID:
            may = f"has {len(value)} characters, but may have {LONGEST_ID}"
        return (
            f"the id {value!r:.220} {may}. Rename it in the net, for example with netconvert"
            " --numerical-ids"
        )
    shown = f" ({value!r:.220})" if isinstance(value, str) else ""
    return f"{mistake['msg'].removeprefix('Value error, ')}{shown}"
