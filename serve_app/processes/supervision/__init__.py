"""Supervision of an instance: a supervisor for Ray, one for the edge, and supervisord over both.

A supervisor restarts its process at once when that has died, and adopts one that runs already. So a
supervisor may die too: supervisord or systemd restarts it, and nothing else stops.
"""
