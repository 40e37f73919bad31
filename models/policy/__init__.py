"""The recurrent policy: its network, the form of its file, and its step on the hot path."""
