"""Between the two: the state actor, the replicas' way to it, and the channel of commits."""
