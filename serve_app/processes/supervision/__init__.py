"""What keeps an instance running: a keeper for Ray, one for the edge, and a supervisor over both.

A keeper starts what it keeps again at once when that has died, and takes over what runs already. So
a keeper may die too: the supervisor, or systemd, starts it again, and nothing else stops.
"""
