"""Peer: the application of :mod:`.fastapi_policy` on Ray Serve, as its documentation shows it."""

from ray import serve
from ray.serve import Application

from load_tests.peers.fastapi_policy import create_app

app: Application = serve.deployment(name="Policy")(serve.ingress(create_app)()).bind()
