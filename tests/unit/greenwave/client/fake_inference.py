"""An inference service without policy, which reads and answers requests as the real one does."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deployments.inference.errors import InferenceError
from deployments.inference.open_inference.messages import read_request, render_response
from deployments.inference.open_inference.steps import Reader
from deployments.inference.policy_model import ObservedRows
from greenwave.client.call import NoReply, Reply, Send
from models.networks.shipped import SHIPPED
from tests.unit.greenwave.client.play import LOST, answer

READER = Reader(SHIPPED)


@dataclass
class FakeInference:
    """Answers the step of each state; actions are the observations' first values.

    Attributes:
        lost: the calls whose answers are lost, from 1.
        failing: by run, the statuses of its next rows.
        calls: the rows of each call, as (run, junction).
    """

    lost: set[int] = field(default_factory=set)
    failing: dict[str, list[int]] = field(default_factory=dict)
    calls: list[list[tuple[str, str]]] = field(default_factory=list)
    steps: dict[tuple[str, str], int] = field(default_factory=dict)
    receipts: dict[tuple[str, str, int], tuple[int, int]] = field(default_factory=dict)
    sent: list[Send] = field(default_factory=list)

    async def __call__(self, send: Send, /) -> Reply | NoReply:
        assert send.body is not None
        assert send.url == "http://inference/v2/models/policy/infer"
        self.sent.append(send)
        run, key = send.headers.get("x-simulation-run"), send.headers["idempotency-key"]
        try:
            length = send.headers["inference-header-content-length"]
            request, inputs = read_request(send.body, length)
            asked = READER.read(request, inputs, run, key)
        except InferenceError as error:
            return answer(error.status, {"error": str(error)})
        steps = asked.steps
        assert isinstance(steps.inputs, ObservedRows)
        states: list[tuple[str, str]] = list(steps.keys)
        self.calls.append(states)
        if asked.starts:
            for state in [each for each in self.steps if each[0] in asked.rows]:
                del self.steps[state]
            self.receipts = {k: v for k, v in self.receipts.items() if k[0] not in asked.rows}
        keys = [0] * len(states) if steps.ids is None else steps.ids.tolist()
        results = [
            self._step(*state, key, int(obs[0]))
            for state, key, obs in zip(states, keys, steps.inputs.observations, strict=True)
        ]
        if len(self.calls) in self.lost:
            return LOST
        outputs: dict[str, Any] = {
            "action": np.array([each[0] for each in results], np.int32),
            "confidence": np.full(len(results), 0.5, np.float32),
            "step": np.array([each[1] for each in results], np.int64),
            "status": np.array([each[2] for each in results], np.int32),
            "code": [b"overloaded" if each[2] == 503 else b"" for each in results],
        }
        status, body, headers = render_response(
            {"model_name": "policy", "model_version": "1"}, request, outputs
        )
        return Reply(status, {name.decode(): value.decode() for name, value in headers}, body)

    async def close(self) -> None: ...

    def _step(self, run: str, junction: str, key: int, action: int) -> tuple[int, int, int]:
        if failures := self.failing.get(run):
            return -1, -1, failures.pop(0)
        if (run, junction, key) not in self.receipts:
            step = self.steps[run, junction] = self.steps.get((run, junction), 0) + 1
            self.receipts[run, junction, key] = action, step
        return *self.receipts[run, junction, key], 200
