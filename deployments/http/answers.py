"""Answers as plain data, from a handler to whatever writes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.types import Scope

Headers = Sequence[tuple[bytes, bytes]]
Answer = tuple[int, bytes, Headers]
"""Status, body, and headers without the body's length."""

Handle = Callable[[Scope, bytes], Awaitable[Answer]]
RenderError = Callable[[Scope, Exception], Answer]
SendAnswer = Callable[[int, bytes, Headers], Awaitable[None]]

JSON = (b"content-type", b"application/json")
JSON_HEADERS: Headers = (JSON,)
