"""What a browser may do with a page of ours: show it, with its own scripts and styles, alone."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)

# Of every answer that a browser may be led to.
GUARDED: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
}


def page_headers(page: str = "", *, made_styles: bool = False) -> dict[str, str]:
    """Return the headers of a page, which allow the scripts and styles that stand in it.

    Args:
        page: the HTML.
        made_styles: whether its scripts write styles of their own, as Swagger UI's do.
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
    return {**GUARDED, "content-security-policy": policy, "cache-control": "no-cache"}
