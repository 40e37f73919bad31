"""The calls of each service: from Python values to a request, and from its answer to a result."""
