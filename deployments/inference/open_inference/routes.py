"""The policy as a model of the Open Inference Protocol, with sequences as Triton has them.

A sequence is a run. ``sequence_start`` resets it before its first step, ``sequence_end`` after its
last one, and a step of a sequence that was not started is refused.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.exceptions import HTTPException
from starlette.types import Scope

from deployments.http import errors as detail_errors
from deployments.http.errors import RefusedError
from deployments.http.messages import JSON_HEADERS, Answer
from deployments.http.probes import Probes
from deployments.http.request import header, path_of
from deployments.inference.errors import InferenceError, refusal_of
from deployments.inference.open_inference.messages import (
    HEADER_LENGTH,
    InferRequest,
    InvalidTensorError,
    Outputs,
    read_request,
    render_response,
)
from deployments.inference.open_inference.sequences import end, start
from deployments.inference.open_inference.steps import INPUTS, Reader
from deployments.inference.service import InferenceService, Predictions, names_of

MODEL, VERSION = "policy", "1"
OUTPUTS = {
    "action": ("INT32", [-1]),
    "confidence": ("FP32", [-1]),
    "step": ("INT64", [-1]),
    "status": ("INT32", [-1]),
    "code": ("BYTES", [-1]),
    "logits": ("FP32", [-1, -1]),
}
_WITHOUT_LOGITS = 3  # values of an output, at most


def speaks_protocol(scope: Scope) -> bool:
    """Return whether the path of a request is one of the protocol."""
    path = path_of(scope)
    return path == "/v2" or path.startswith("/v2/")


def render_error(scope: Scope, error: Exception) -> Answer:
    """Render an error as ``{"error": …}``."""
    if isinstance(error, HTTPException) and error.status_code == 404:
        error = HTTPException(404, _not_found(path_of(scope)))
    elif not isinstance(error, RefusedError | HTTPException):
        error = refusal_of(error)
    status, body, headers = detail_errors.render_error(scope, error)
    return status, json.dumps({"error": json.loads(body)["detail"]}).encode(), headers


def _not_found(path: str) -> str:
    """Return why there is nothing at a path of the protocol."""
    _, _, kind, *of_model = path.split("/")
    other_model = kind == "models" and of_model[:1] not in ([], [MODEL])
    if other_model or (of_model[1:2] == ["versions"] and of_model[2:3] != [VERSION]):
        return f"The only model is {MODEL!r}, and its version {VERSION!r}"
    return f"{path[:100]} is not offered; GET /openapi.json lists what is"


class OpenInference:
    """Handlers around a service. Their docstrings are in the OpenAPI document."""

    def __init__(self, service: InferenceService, probes: Probes) -> None:
        self._service = service
        self._probes = probes
        self._reader = Reader(service.network)

    async def server(self, scope: Scope, body: bytes) -> Answer:
        """Return the server's name, version and extensions."""
        return _answer(
            {
                "name": "greenwave",
                "version": version("greenwave"),
                "extensions": ["binary_tensor_data", "sequence"],
            }
        )

    async def live(self, scope: Scope, body: bytes) -> Answer:
        """Return 200 while the process answers."""
        return _answer({"live": True})

    async def ready(self, scope: Scope, body: bytes) -> Answer:
        """Return 200 while this replica has all that its work needs, otherwise 503."""
        status, _, _ = await self._probes.readyz(scope, body)
        return _answer({"ready": status == 200}, status)

    async def model(self, scope: Scope, body: bytes) -> Answer:
        """Return the model's inputs and outputs; -1 stands for rows, and for values in a row."""
        tensors = {
            kind: [
                {"name": name, "datatype": datatype, "shape": shape}
                for name, (datatype, shape) in table.items()
            ]
            for kind, table in (("inputs", INPUTS), ("outputs", OUTPUTS))
        }
        return _answer(
            {"name": MODEL, "versions": [VERSION], "platform": "greenwave_gru", **tensors}
        )

    async def model_ready(self, scope: Scope, body: bytes) -> Answer:
        """Return 200 while a policy is loaded, otherwise 503."""
        loaded = self._service.policies.loaded
        return _answer({"name": MODEL, "ready": loaded}, 200 if loaded else 503)

    async def infer(self, scope: Scope, body: bytes) -> Answer:
        """Make a step for each row; the rows may belong to different runs and junctions.

        A row that fails has an HTTP status other than 200 in the output `status`, and -1 as action
        and step. A request that asks for other outputs alone fails as a whole then. `sequence_end`
        does not end a run of which a row has failed.

        A repeated row has no logits but NaN, which is `null` in JSON.
        """
        if header(scope, b"content-encoding") not in (None, "identity"):
            raise InvalidTensorError("Compressed bodies are not supported")
        request, inputs = read_request(body, header(scope, HEADER_LENGTH))
        for output in request.outputs or ():
            if output.name not in OUTPUTS:
                known = ", ".join(OUTPUTS)
                raise InvalidTensorError(f"There is no output {output.name!r}; there are {known}")
        run, key = names_of(scope)
        sequences = self._reader.read(request, inputs, run, key)
        ended = await start(self._service.engine, sequences)
        results = await self._service.predict_many(sequences.steps, ended)
        results = await end(self._service.engine, sequences, results, ended)
        head = {"model_name": MODEL, "model_version": VERSION}
        if request.id is not None:
            head["id"] = request.id
        return render_response(
            head, request, _outputs(request, results, self._service.network.n_actions)
        )


def _outputs(request: InferRequest, results: Predictions, n_actions: int) -> Outputs:
    """Return the outputs by name; logits only on request, as they cost more than the others."""
    asked = {each.name for each in request.outputs or ()}
    if results.errors and asked and "status" not in asked:
        row, error = min(results.errors.items())
        message = f"Row {row}: {error}. Ask for the output 'status' to get the other rows."
        raise InferenceError(error.status, message, error.code, error.retry_after_s)
    status, codes = np.full(len(results.steps), 200, np.int32), [b""] * len(results.steps)
    made, steps = results.outputs, np.array(results.steps, np.int64)
    if results.errors:
        nothing = (-1, 0.0, "", *[0.0] * n_actions)
        made = [nothing if each is None else each for each in made]
        for row, error in results.errors.items():
            status[row], codes[row], steps[row] = error.status, (error.code or "").encode(), -1
    outputs: dict[str, NDArray[Any] | list[bytes]] = {
        "action": np.array([each[0] for each in made], np.int32),
        "confidence": np.array([each[1] for each in made], np.float32),
        "step": steps,
        "status": status,
        "code": codes,
    }
    if "logits" in asked:
        unknown = [np.nan] * n_actions
        logits = [each[_WITHOUT_LOGITS:] or unknown for each in made]
        outputs["logits"] = np.array(logits, np.float32)
    return outputs


def _answer(content: dict[str, Any], status: int = 200) -> Answer:
    return status, json.dumps(content).encode(), JSON_HEADERS
