"""What FastAPI is told of routes that it does not answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route as StarletteRoute
from starlette.types import Scope

Takes = Mapping[str, tuple[Any, Any]]
"""Type and default of each parameter, ``...`` for none, as in pydantic's ``create_model``."""


def placeholder(takes: Takes) -> Callable[..., None]:
    """Make what FastAPI reads the parameters of an operation from; it is never called."""

    def operation() -> None: ...

    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=annotation,
            default=inspect.Parameter.empty if default is ... else default,
        )
        for name, (annotation, default) in takes.items()
    ]
    operation.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return operation


def methods_of(app: FastAPI, scope: Scope) -> list[str]:
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    routes = [route for route in app.routes if isinstance(route, StarletteRoute)]
    methods = {method for route in routes if route.path == path for method in route.methods or ()}
    return sorted(methods or {"GET", "HEAD"})  # the files of the docs page are no routes
