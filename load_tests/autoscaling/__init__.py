"""Autoscaling seen to work: load that grows and shrinks, replicas that follow, states that hold."""
