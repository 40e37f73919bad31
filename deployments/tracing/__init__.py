"""OpenTelemetry traces of requests, from the edge to the store; off by default.

Code that passes a request on only needs :mod:`deployments.trace_context`, which is cheap.
OpenTelemetry's SDK is loaded when tracing is on.
"""
