"""The recurrent policy: the form of its file, and its step on the hot path."""
