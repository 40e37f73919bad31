"""Peer: the policy on BentoML, one worker.

Run it in its own environment, from the project's folder, with
``bentoml serve load_tests.bench.peer_servers.bentoml_server:Policy --port PORT``.
"""

from __future__ import annotations

import bentoml

from load_tests.bench.peer_servers import Prediction
from load_tests.bench.peer_servers.policy import torch_step


@bentoml.service(workers=1, logging={"access": {"enabled": False}})
class Policy:
    def __init__(self) -> None:
        self._step = torch_step()

    @bentoml.api(route="/predict_action")
    async def predict_action(self, junction_id: str, obs_data: list[float]) -> Prediction:
        action, confidence = self._step(junction_id, obs_data)
        return Prediction(junction_id=junction_id, action=action, confidence=confidence)
