"""Defects of the policies that stand beside each other."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

POLICIES = "inference/policies.py"
SHADOW = "inference/shadow.py"
STEPPER = "stateful/replica/stepper.py"

MUTANTS = [
    Mutant(
        "policies share their states",
        "stateful/protocol.py",
        '        return Key(self.run, f"{self.junction}@{states}") if states else self\n',
        "        return self\n",
    ),
    Mutant(
        "a shadow answers",
        POLICIES,
        '        return self.config.mode == "canary" and self.concerns(run)\n',
        "        return self.concerns(run)\n",
    ),
    Mutant(
        "a canary answers every run",
        POLICIES,
        "        return place_of(run) < self.config.share\n",
        "        return True\n",
    ),
    Mutant(
        "a candidate takes over the states of another",
        POLICIES,
        "        if line.source not in (None, source):\n",
        "        if False:\n",
    ),
    Mutant(
        "a promoted candidate is read again",
        POLICIES,
        "        if source == self.source:\n",
        "        if False:\n",
    ),
    Mutant(
        "a candidate that is refused ends the trial of the one before",
        POLICIES,
        "        return self.candidate\n\n    def _serve",
        "        return None\n\n    def _serve",
    ),
    Mutant(
        "a policy that is refused ends the trial",
        POLICIES,
        "                self.primary.slot.problem = primary.slot.problem\n"
        "                return\n",
        "                self.primary.slot.problem = primary.slot.problem\n"
        "                self.candidate = None\n                return\n",
    ),
    Mutant(
        "a canary refuses what it cannot step",
        STEPPER,
        "        if self.fallback is None:\n",
        "        if True:\n",
    ),
    Mutant(
        "what a canary could not step has no deadline",
        STEPPER,
        "        request.timed = False  # the other one looks after states of its own only\n",
        "",
    ),
    Mutant(
        "what is promoted leaves steps to the policy before it",
        POLICIES,
        "        primary.stepper.fallback = None\n",
        "",
    ),
    Mutant(
        "a shadow steps before the answer",
        SHADOW,
        "        answer.add_done_callback(lambda _: self._note(seen))\n",
        "        self._note(seen)\n        self._run()\n",
    ),
    Mutant(
        "a shadow goes on after a reset",
        SHADOW,
        "        if 1 in batch.steps:  # zeros",
        "        if False:  # zeros",
    ),
    Mutant(
        "a shadow follows without a bound",
        SHADOW,
        "        if self._n_waiting + len(seen.keys) > MAX_WAITING:\n",
        "        if False:\n",
    ),
    Mutant(
        "a new state of a shadow is that of another one",
        SHADOW,
        "            self.hidden[row] = 0\n",
        "",
    ),
    Mutant(
        "a shadow follows every run",
        SHADOW,
        "if finite[n] and self.concerns(key.run)]",
        "if finite[n]]",
    ),
    Mutant(
        "a shadow steps what was refused",
        SHADOW,
        "if finite[n] and self.concerns(key.run)]",
        "if self.concerns(key.run)]",
    ),
    Mutant(
        "a shadow keeps a state that is not finite",
        SHADOW,
        "            step.hidden[~step.finite] = 0\n",
        "            pass\n",
    ),
]
