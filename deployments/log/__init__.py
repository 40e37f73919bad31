"""Lines for whoever runs the system: what they are about, and no floods of them.

Serve writes the lines of this logger into the file of the replica, whose name has the application,
the deployment and the replica; :func:`deployments.ray_private.serve.prepare_log` adds the request.
A state actor has a file of its own beside these, and so have the keepers of the launcher.
"""

from deployments.log.context import REQUEST_ID_HEADER, about, request_headers, trace_id
from deployments.log.lines import Fields, line_handler, write_to
from deployments.log.rate_limit import Outages, RateLimitedLogger, RateLimitFilter, logger

__all__ = [
    "REQUEST_ID_HEADER",
    "Fields",
    "Outages",
    "RateLimitFilter",
    "RateLimitedLogger",
    "about",
    "line_handler",
    "logger",
    "request_headers",
    "trace_id",
    "write_to",
]
