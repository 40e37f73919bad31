"""Supervision of an instance: one process that keeps Ray and the edge, and a guard that keeps it.

The supervisor restarts a process at once when that has died, and adopts one that runs already. So
the supervisor may die too: the guard restarts it, and nothing else stops.
"""
