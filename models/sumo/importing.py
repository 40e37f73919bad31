"""Makes a network file of a SUMO network, with remarks about what needs attention."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from pydantic import ValidationError

from models.maps.phases_in_words import origin_in_words, ways_in_words
from models.networks.file import InvalidNetworkError
from models.networks.form import (
    ID_MARKS,
    JunctionEntry,
    Lane,
    LaneBehind,
    Link,
    NetworkFile,
    Phase,
    Point,
)
from models.sumo.intergreen import intergreen_of
from models.sumo.net import Program, SumoLink, SumoNet, read_sumo_net

UNGREEN = set("yYu")  # yellow, and the red-yellow before a green
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

    def sentences(self) -> Iterator[str]:
        """Yield some remarks of each kind, and how many more there are."""
        for sentences in self._of_kind.values():
            yield from list(sentences)[:SHOWN_OF_A_KIND]
            more = len(sentences) - SHOWN_OF_A_KIND
            if more > 0:
                yield f"... and {more} more remarks like that."


def import_network(
    path: str | os.PathLike[str], name: str | None = None, signals: Collection[str] | None = None
) -> tuple[NetworkFile, Remarks]:
    """Derive a network file from a SUMO network.

    Args:
        name: of the network; of the file by default.
        signals: to restrict it to, all by default.

    Raises:
        InvalidNetworkError: it is not a SUMO network, has no signal to control, lacks one of
            ``signals``, or has ids that a network file does not allow.
    """
    net, remarks = read_sumo_net(path), Remarks()
    if unknown := [each for each in signals or () if each not in net.programs]:
        raise InvalidNetworkError(f"{path} has no signal {unknown[0]}.")
    wanted = [each for each in net.programs if signals is None or each in signals]
    try:
        junctions: list[JunctionEntry] = []
        for signal in wanted:
            entry = junction_of(net, signal, len(junctions), remarks.add)
            if entry is not None:
                junctions.append(entry)
        if not junctions:
            raise InvalidNetworkError(_nothing_to_control(path, net, remarks))
        file = NetworkFile(name=name or _stem(path), junctions=tuple(junctions))
    except ValidationError as error:
        raise InvalidNetworkError(f"{path}: {_first(error)}") from error
    return file, remarks


def junction_of(
    net: SumoNet, signal: str, agent_index: int, remark: Remark
) -> JunctionEntry | None:
    """Return a signal's entry, None where there is nothing to control; what is odd is a remark."""
    program = net.programs[signal][-1]
    if len(net.programs[signal]) > 1:
        remark("programs", f"{signal} has several programs; the last, {program.id}, is taken.")
    if program.kind == "NEMA":
        remark(
            "NEMA",
            f"{signal}: each step of its NEMA rings is an action; other pairs of phases are lost.",
        )
    links = _usable_links(net, signal, remark)
    lanes = dict.fromkeys(each.lane for each in links if not each.walked and each.lane[0] != ":")
    if program.kind in SIGNALS_OF_RAILWAYS or not lanes:
        kind = program.kind if lanes else "signal without lanes of vehicles"
        remark("left out", f"{signal} is left out: it is a {kind}.")
        return None
    walked = {link.index for link in links if link.walked}
    states = green_states(program, signal, walked, remark)
    served = [lane for lane in lanes if _is_served(lane, links, states)]
    if len(states) < 2 or not served:
        count = {0: "no green phase", 1: "one green phase"}.get(len(states), "no lane with green")
        remark("left out", f"{signal} is left out: it has {count}, and nothing to decide.")
        return None
    _remark_on_links(signal, links, states, remark)
    for lane in lanes.keys() - set(served):
        remark("never green", f"{signal}: lane {lane} never gets green and is left out.")
    return JunctionEntry(
        id=signal,
        agent_index=agent_index,
        phases=tuple(
            Phase(state=state, name=_in_words(net, links, state) or None) for state in states
        ),
        lanes=tuple(_lane(net, each) for each in served),
        position=_position(net, signal, served),
        links=_links(links, len(states[0])),
        intergreen_s=intergreen_of(net, signal, links, len(states[0]), remark),
        conflicts=_conflicts(net, links),
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


def green_states(
    program: Program, signal: str, walked: Collection[int], remark: Remark
) -> tuple[str, ...]:
    """Return the distinct states with green that are not part of a change.

    Args:
        walked: letters of pedestrian crossings. A state in which only crossings have turned red is
            their clearance, and part of the phase before it.
    """
    still = [state for state in program.states if not set(state) & UNGREEN]
    clearances = {
        after for before, after in pairwise(program.states) if _ends_walks(before, after, walked)
    }
    if clearances.intersection(still):
        remark(
            "clearance", f"{signal}: the clearance of a crossing is part of the phase before it."
        )
        still = [state for state in still if state not in clearances]
    green = [state for state in still if set(state) & set("Gg")]
    if len(green) < len(still):
        remark("all red", f"{signal}: a phase that is red for all is not an action.")
    distinct = tuple(dict.fromkeys(green))
    if len(distinct) < len(green):
        remark("twice", f"{signal}: a phase that its program shows more than once is one action.")
    return distinct


def _ends_walks(before: str, after: str, walked: Collection[int]) -> bool:
    """Return whether crossings turn red from one state to the next, and nothing else changes."""
    if len(before) != len(after):  # the network file's form refuses that
        return False
    changed = [i for i in range(len(before)) if before[i] != after[i]]
    return bool(changed) and all(
        i in walked and before[i] in "Gg" and after[i] == "r" for i in changed
    )


def _usable_links(net: SumoNet, signal: str, remark: Remark) -> list[SumoLink]:
    """Return the links in the order of their indices, those of one index in that of the file."""
    links = sorted(net.links.get(signal, ()), key=lambda link: link.index)
    size = len((net.programs[signal][-1].states or ("",))[0])
    for link in links:
        if link.lane not in net.lanes:
            remark(
                "no lane",
                f"{signal}: link {link.index} comes from {link.lane}, which is not a lane.",
            )
        if link.index >= size:
            remark("no letter", f"{signal}: its program has no letter for link {link.index}.")
    return [link for link in links if link.lane in net.lanes and link.index < size]


def _remark_on_links(
    signal: str, links: list[SumoLink], states: Collection[str], remark: Remark
) -> None:
    if walked := sum(link.walked for link in links):
        remark("pedestrians", f"{signal}: {walked} pedestrian crossings follow its phases.")
    if any("s" in state for state in states):
        remark("on red", f"{signal}: right turns on red stay as the states say, and are no green.")
    if len({link.index for link in links}) < len(links):
        remark("shared", f"{signal}: some of its links share a letter of the states.")
    if len({_node(link) for link in links}) > 1:
        remark("joined", f"{signal}: a joined signal, of several junctions, is one agent.")


def _node(link: SumoLink) -> str:
    """Return the junction that a link crosses, by the name of its inner lane: ``:NODE_3_0``."""
    inner = link.to if link.walked else link.via
    return inner[1:].rsplit("_", 2)[0] if inner else ""


def _is_served(lane: str, links: Iterable[SumoLink], states: Iterable[str]) -> bool:
    indices = [link.index for link in links if link.lane == lane]
    return any(state[index] in "Gg" for state in states for index in indices)


def _links(links: list[SumoLink], size: int) -> tuple[Link, ...]:
    """Return the links, with their indices where these are not their places in the list."""
    in_order = [link.index for link in links] == list(range(size))
    forms = ({"lane": each.lane, "to": each.to, "turn": each.turn} for each in links)
    return tuple(
        Link.model_validate(form if in_order else form | {"index": each.index})
        for form, each in zip(forms, links, strict=True)
    )


def _position(net: SumoNet, signal: str, lanes: Collection[str]) -> Point | None:
    """Return the junction's place, of a joined signal the middle of its stop lines."""
    if signal in net.places:
        return net.places[signal]
    ends = [net.lanes[each].shape[-1] for each in lanes if net.lanes[each].shape]
    if not ends:
        return None
    return tuple(round(sum(axis) / len(ends), 2) for axis in zip(*ends, strict=True))


def _in_words(net: SumoNet, links: Iterable[SumoLink], state: str) -> str:
    ways = (
        (origin_in_words(net.lanes[link.lane].shape), link.turn.lower(), state[link.index] in "Gg")
        for link in links
        if not link.walked and link.turn != "t"
    )
    return ways_in_words(ways)[:_NAME_LENGTH]


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
        return (
            f"the id {value!r:.220} may have letters, digits and {ID_MARKS} only. Rename it in the"
            " net, for example with netconvert --numerical-ids"
        )
    shown = f" ({value!r:.220})" if isinstance(value, str) else ""
    return f"{mistake['msg'].removeprefix('Value error, ')}{shown}"
