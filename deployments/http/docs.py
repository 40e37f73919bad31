"""Interactive API documentation that needs no other host.

FastAPI's own ``/docs`` loads Swagger UI from a CDN and stays blank without one. All addresses in
this page are relative, so it works under any route prefix and behind an edge that rewrites paths.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from deployments.http.request import path_of

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)

# For every response that a browser may open.
SECURITY_HEADERS: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
}


def page_headers(page: str = "", *, made_styles: bool = False) -> dict[str, str]:
    """Return the headers of a page, which allow the scripts and styles in it and no others.

    Args:
        page: the HTML.
        made_styles: whether its scripts write styles, as Swagger UI's do.
    """
    inline: dict[str, list[str]] = {"script": [], "style": []}
    for kind, content in _INLINE.findall(page):
        digest = hashlib.sha256(content.encode()).digest()
        inline[kind].append(f"'sha256-{base64.b64encode(digest).decode()}'")
    styles = ["'unsafe-inline'"] if made_styles else inline["style"]
    rules = {
        "default-src": ["'none'"],
        "script-src": ["'self'", *inline["script"]],
        "style-src": ["'self'", *styles],
        "img-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
    policy = "; ".join(f"{name} {' '.join(sources)}" for name, sources in rules.items())
    return {**SECURITY_HEADERS, "content-security-policy": policy, "cache-control": "no-cache"}


Takes = Mapping[str, tuple[Any, Any]]
"""Type and default of each parameter; ``...`` for no default, as in pydantic's ``create_model``."""


def placeholder(takes: Takes) -> Callable[..., None]:
    """Make a function from which FastAPI reads an operation's parameters; it is never called."""

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
    path = path_of(scope)
    routes = [route for route in app.routes if isinstance(route, StarletteRoute)]
    methods = {method for route in routes if route.path == path for method in route.methods or ()}
    return sorted(methods or {"GET", "HEAD"})  # for the files of the docs page


# The package's files of Swagger UI 5 are all we use; swagger-ui-bundle stopped at version 4, which
# cannot show OpenAPI 3.1.
_SWAGGER_UI = ("fastapi_offline", "static")
_ASSETS = "docs/assets"
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect x='4' width='8' height='16' rx='3' fill='%23222b33'/%3E"
    "%3Ccircle cx='8' cy='3.5' r='1.6' fill='%23e5484d'/%3E"
    "%3Ccircle cx='8' cy='8' r='1.6' fill='%23f5b83d'/%3E"
    "%3Ccircle cx='8' cy='12.5' r='1.6' fill='%2330a46c'/%3E%3C/svg%3E"
)


def declared_body(content_type: str = "application/json", **media_type: Any) -> dict[str, Any]:
    """Return what a route adds to its OpenAPI document for a body that it reads itself.

    Args:
        content_type: of the body.
        media_type: fields of OpenAPI's Media Type Object, such as ``schema`` and ``example``.
    """
    return {"requestBody": {"required": True, "content": {content_type: media_type}}}


def documented_app(**declared: Any) -> FastAPI:
    """Make an application that serves Swagger UI at ``docs`` beside its schema.

    Args:
        declared: arguments of FastAPI, whose own pages are left out.
    """
    app = FastAPI(docs_url=None, redoc_url=None, **declared)
    folder, _, schema = (app.openapi_url or "").rpartition("/")
    page = get_swagger_ui_html(
        openapi_url=schema,
        title=app.title,
        swagger_js_url=f"{_ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{_ASSETS}/swagger-ui.css",
        swagger_favicon_url=_ICON,
        swagger_ui_parameters=app.swagger_ui_parameters,
    )
    page.headers.update(page_headers(bytes(page.body).decode(), made_styles=True))

    @app.get(f"{folder}/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return page

    app.mount(f"{folder}/{_ASSETS}", _Assets(packages=[_SWAGGER_UI]), name="docs assets")
    return app


class _Assets(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(SECURITY_HEADERS)
        return response


def redescribe(app: FastAPI, change: Callable[[dict[str, Any]], None]) -> None:
    """Change an application's OpenAPI document when it is first made."""
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            change(describe())  # which is kept as ``openapi_schema``
        return describe()

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way
