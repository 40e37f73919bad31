"""What a policy may ask for at its worst, and a junction that obeys the safety layer."""

import random
from collections.abc import Callable, Mapping

from models.signals.monitor import ConflictMonitor
from models.signals.safety import SafetyLayer, Shown

Ask = Callable[[random.Random, Shown, int], int]


def _anything(source: random.Random, shown: Shown, n_phases: int) -> int:
    return int(source.random() * n_phases)


def _always_the_same(source: random.Random, shown: Shown, n_phases: int) -> int:
    return 0


def _always_another(source: random.Random, shown: Shown, n_phases: int) -> int:
    return (shown.phase + 1 + int(source.random() * (n_phases - 1))) % n_phases


def _never_the_longest_red(source: random.Random, shown: Shown, n_phases: int) -> int:
    return min(range(n_phases), key=lambda phase: (shown.red_s[phase], phase))


def _starve_one(source: random.Random, shown: Shown, n_phases: int) -> int:
    """Never ask for the last phase, and change as often as may be otherwise."""
    return (shown.phase + 1) % max(1, n_phases - 1)


def _step_back(source: random.Random, shown: Shown, n_phases: int) -> int:
    return (shown.phase - 1) % n_phases


def _keep_long_then_flee(source: random.Random, shown: Shown, n_phases: int) -> int:
    """Let the reds come near their bound together, then change to the one that waits least."""
    if max(shown.red_s) < 40:
        return shown.phase
    return min((p for p in range(n_phases) if p != shown.phase), key=lambda p: shown.red_s[p])


ADVERSARIES: Mapping[str, Ask] = {
    "anything": _anything,
    "always the same": _always_the_same,
    "always another": _always_another,
    "never the longest red": _never_the_longest_red,
    "starve one": _starve_one,
    "step back": _step_back,
    "keep long, then flee": _keep_long_then_flee,
}


def obey(
    layer: SafetyLayer, monitor: ConflictMonitor, ask: Ask, decisions: int, seed: int
) -> tuple[list[float], list[str]]:
    """Drive a junction that asks at irregular times, and shows every state the monitor's way.

    Returns:
        When each state began, and the states; the last one begins when all is over.
    """
    source = random.Random(seed)
    latest_s = layer.limits.asked_every_s
    n_phases = len(layer.phases)
    phase, begun_s, now_s = 0, 0.0, 0.0
    ended_s = [0.0] * n_phases
    times, states = [0.0], [layer.phases[0]]
    for _ in range(decisions):
        # quarters of a second, exact in binary; as late as allowed, half of the time
        gap = source.random()
        now_s += latest_s if gap < 0.5 else 0.25 * int(1 + gap * 4 * latest_s)
        red_s = [now_s - ended for ended in ended_s]
        if now_s >= begun_s:
            red_s[phase] = 0.0
        shown = Shown(phase, now_s - begun_s, red_s)
        decision = layer.decide(shown, ask(source, shown, n_phases))
        if decision.steps:
            ended_s[phase] = now_s
            phase, begun_s = decision.phase, now_s + decision.after_s
            for after_s, state in decision.steps:
                monitor.check(state)
                if state != states[-1]:
                    times.append(now_s + after_s)
                    states.append(state)
    times.append(max(now_s, begun_s) + latest_s)
    states.append("")
    return times, states
