"""What the two forecast services share: batching, routes, metrics, the deployment itself."""
