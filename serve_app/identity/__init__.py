"""Who may do what on an instance: its first user, its signing keys, its inference tokens."""
