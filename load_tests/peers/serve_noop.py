"""Peer: a FastAPI ingress on Ray Serve that validates the same body and does nothing, the floor of
the engine."""

from fastapi import FastAPI
from ray import serve
from ray.serve import Application

from load_tests.peers.bodies import Prediction, PredictionRequest


@serve.deployment(name="NoOp")
@serve.ingress()
class NoOp:
    def __serve_build_asgi_app__(self) -> FastAPI:
        app = FastAPI()

        @app.post("/predict_action")
        async def predict_action(request: PredictionRequest) -> Prediction:
            return Prediction(junction_id=request.junction_id, action=0, confidence=1.0)

        return app


app: Application = NoOp.bind()  # type: ignore[attr-defined]
