"""What the two forecast services share: batching, routes, metrics and the deployment."""
