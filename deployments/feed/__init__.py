"""What replicas tell whoever watches the system: off the hot path, and lost before it delays."""
