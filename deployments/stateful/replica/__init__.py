"""A replica's side: the states that it owns, and their steps."""
