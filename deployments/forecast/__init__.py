"""What the two forecast services share: batching, model in service, fast route, metrics."""
