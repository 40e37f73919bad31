"""Makes what ``help`` and editors show of a method that performs a call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def described(method: Method, build: Callable[..., Any], returns: str) -> Method:
    """Describe a method by what builds its call.

    Args:
        returns: with ``{}`` in place of the call's result.
    """
    functools.update_wrapper(method, build)
    signature = inspect.signature(build)
    result = str(signature.return_annotation).removeprefix("Call[").removesuffix("]")
    described: Any = method
    described.__signature__ = signature.replace(return_annotation=returns.format(result))
    return method
