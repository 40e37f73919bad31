"""Peer: the policy on LitServe, one worker for single requests and one for rows, with batching.

Run in its own environment: ``python -m load_tests.bench.peer_servers.litserve_server PORT``.

Without postponed annotations: LitServe reads the body's class from the signature.
"""

import sys

import litserve
import numpy as np
from fastapi import Request

from load_tests.bench.peer_servers import Prediction, PredictionRequest
from load_tests.bench.peer_servers.policy import torch_rows, torch_step


class Policy(litserve.LitAPI):
    def setup(self, device: str) -> None:
        self._step = torch_step()

    def decode_request(self, request: PredictionRequest) -> PredictionRequest:
        return request

    def predict(self, x: PredictionRequest) -> Prediction:
        action, confidence = self._step(x.junction_id, x.obs_data)
        return Prediction(junction_id=x.junction_id, action=action, confidence=confidence)

    def encode_response(self, output: Prediction) -> Prediction:
        return output


class Rows(litserve.LitAPI):
    """Steps the rows of several requests together: LitServe reads arrays as JSON."""

    def setup(self, device: str) -> None:
        self._step = torch_rows()

    def decode_request(self, request: Request) -> tuple[np.ndarray, np.ndarray]:
        observations = np.array(request["observation"], "<f4")
        return observations, np.array(request["agent_index"], "<i4")

    def batch(self, inputs: list[tuple[np.ndarray, np.ndarray]]) -> tuple[list[int], bytes]:
        observations, agents = zip(*inputs, strict=True)
        body = np.concatenate(observations).tobytes() + np.concatenate(agents).tobytes()
        return [len(each) for each in agents], body

    def predict(self, x: tuple[list[int], bytes]) -> tuple[list[int], bytes]:
        sizes, body = x
        return sizes, self._step(body)

    def unbatch(self, output: tuple[list[int], bytes]) -> list[tuple[np.ndarray, np.ndarray]]:
        sizes, stepped = output
        ends = np.cumsum(sizes)[:-1]
        actions = np.frombuffer(stepped, "<i4", sum(sizes))
        confidences = np.frombuffer(stepped, "<f4", sum(sizes), actions.nbytes)
        return list(zip(np.split(actions, ends), np.split(confidences, ends), strict=True))

    def encode_response(self, output: tuple[np.ndarray, np.ndarray]) -> dict[str, list[float]]:
        actions, confidences = output
        return {"action": actions.tolist(), "confidence": confidences.tolist()}


if __name__ == "__main__":
    # The fast queue is what LitServe's documentation advises above 100 requests per second.
    rows = Rows(api_path="/step_rows", max_batch_size=8, batch_timeout=0.001)
    server = litserve.LitServer(
        [Policy(api_path="/predict_action"), rows], accelerator="cpu", fast_queue=True
    )
    server.run(
        host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", generate_client_file=False
    )
