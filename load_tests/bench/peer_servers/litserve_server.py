"""Peer: the policy on LitServe, one worker.

Run in its own environment: ``python -m load_tests.bench.peer_servers.litserve_server PORT``.

Without postponed annotations: LitServe reads the body's class from the signature.
"""

import sys

import litserve

from load_tests.bench.peer_servers import Prediction, PredictionRequest
from load_tests.bench.peer_servers.policy import torch_step


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


if __name__ == "__main__":
    # The fast queue is what LitServe's documentation advises above 100 requests per second.
    policy = Policy(api_path="/predict_action")
    server = litserve.LitServer(policy, accelerator="cpu", fast_queue=True)
    server.run(
        host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", generate_client_file=False
    )
