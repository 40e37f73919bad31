"""The token that clients of the inference service must send, if the operator sets one."""

from __future__ import annotations

import os
from collections.abc import Callable

from serve_app.settings import InsecureSettingsError, Settings, read_secret_file

VARIABLE = "INFERENCE_TOKEN"
MIN_BYTES = 32  # as of a signing key
MAX_BYTES = 4096


def inference_tokens(settings: Settings | None = None) -> tuple[str, ...]:
    """Return the accepted tokens, of which the first is sent; none without a configured token.

    Raises:
        InsecureSettingsError: one is not safe; the message shows none of them.
    """
    settings = settings or Settings()
    if os.environ.get(VARIABLE) == "":
        raise InsecureSettingsError(f"{VARIABLE} is empty. Unset it to ask for no token.")
    given, path = settings.inference_token, settings.inference_token_file
    if given is not None and path is not None:
        raise InsecureSettingsError(
            f"Both {VARIABLE} and {VARIABLE}_FILE are set. Unset one of them."
        )
    if path is not None:
        content = read_secret_file(path, "a token", MAX_BYTES)
        tokens, source = tuple(content.decode(errors="replace").split()), str(path)
        if not tokens:
            raise InsecureSettingsError(f"{path} has no token.")
    elif given is not None:
        tokens, source = (given.get_secret_value(),), VARIABLE
    else:
        return ()
    for token in tokens:
        _check(token, source)
    return tokens


def required_inference_tokens() -> tuple[str, ...]:
    """Return the tokens for a replica of a service that requires one.

    Raises:
        InsecureSettingsError: one is not safe, or this machine has none.
    """
    if tokens := inference_tokens():
        return tokens
    raise InsecureSettingsError(
        f"This machine has no {VARIABLE}. Set the same one on every node of the cluster."
    )


def configured_tokens(settings: Settings) -> Callable[[], tuple[str, ...]] | None:
    """Return a reader for replicas: Ray would store tokens that are bound to a deployment."""
    return required_inference_tokens if inference_tokens(settings) else None


def token_headers(settings: Settings) -> dict[str, str]:
    """Return the headers for requests to the inference service."""
    tokens = inference_tokens(settings)
    return {"Authorization": f"Bearer {tokens[0]}"} if tokens else {}


def _check(token: str, source: str) -> None:
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise InsecureSettingsError(f"{source} has a token that is not of printable ASCII.")
    if len(token) < MIN_BYTES:
        raise InsecureSettingsError(
            f"{source} has a token of {len(token)} bytes; it needs at least {MIN_BYTES}."
        )
