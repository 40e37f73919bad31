"""The gateway: logins, decisions for controllers, and the fallback without the policy."""

EDGE_VARIABLE = "GREENWAVE_EDGE"
"""Environment variable with the base URL of an edge on the same node, set by the launcher."""
