"""Traces of single requests, from the edge to the store, as OpenTelemetry has them; off by default.

Whoever passes a request on knows :mod:`deployments.trace_context` alone, which costs next to
nothing; what makes spans, and with it OpenTelemetry's SDK, is loaded when tracing is on.
"""
