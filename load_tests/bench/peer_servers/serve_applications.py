"""Peers on Ray Serve, as the import paths of serve configs name them.

``no_op`` is the floor of the engine; ``policy`` is the policy as a plain FastAPI ingress.
"""

from fastapi import FastAPI
from ray import serve
from ray.serve import Application

from load_tests.bench.peer_servers import Prediction, PredictionRequest


def no_op_app() -> FastAPI:
    app = FastAPI()

    @app.post("/predict_action")
    async def predict_action(request: PredictionRequest) -> Prediction:
        return Prediction(junction_id=request.junction_id, action=0, confidence=1.0)

    return app


def policy_app() -> FastAPI:
    from load_tests.bench.peer_servers import fastapi_server  # the no-op needs no PyTorch

    return fastapi_server.policy_app()


no_op: Application = serve.deployment(name="NoOp")(serve.ingress(no_op_app)()).bind()
policy: Application = serve.deployment(name="Policy")(serve.ingress(policy_app)()).bind()
