"""A typed client of a running Greenwave, for controllers and simulators.

    with Client(Addresses.of_edge("localhost"), "operator", password) as client:
        run = client.run("monday")
        run.reset()
        decision = run.act("300839359", [1, 0, 1, 0.4])

``AsyncClient`` has the same calls, to be awaited.
"""

from greenwave.client.clients import AsyncClient, Client
from greenwave.client.errors import (
    GreenwaveError,
    InvalidInputError,
    InvalidRequestError,
    KeyReusedError,
    NotFoundError,
    RefusedError,
    TooManyLoginsError,
    UnauthorizedError,
    UnavailableError,
    UnknownOutcomeError,
    UnusableAnswerError,
)
from greenwave.client.inference import Observed
from greenwave.client.results import (
    Account,
    Card,
    Customer,
    Decision,
    DensityForecast,
    FailedPrediction,
    FlowForecast,
    Loan,
    Prediction,
    Predictions,
    RunInfo,
    RunSteps,
    Sample,
    Shown,
)
from greenwave.client.settings import Addresses, Retries, Timeouts
from greenwave.client.vector import VectorPolicy

__all__ = [
    "Account",
    "Addresses",
    "AsyncClient",
    "Card",
    "Client",
    "Customer",
    "Decision",
    "DensityForecast",
    "FailedPrediction",
    "FlowForecast",
    "GreenwaveError",
    "InvalidInputError",
    "InvalidRequestError",
    "KeyReusedError",
    "Loan",
    "NotFoundError",
    "Observed",
    "Prediction",
    "Predictions",
    "RefusedError",
    "Retries",
    "RunInfo",
    "RunSteps",
    "Sample",
    "Shown",
    "Timeouts",
    "TooManyLoginsError",
    "UnauthorizedError",
    "UnavailableError",
    "UnknownOutcomeError",
    "UnusableAnswerError",
    "VectorPolicy",
]
