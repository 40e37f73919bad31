"""The first user of an instance, its signing keys and its inference tokens."""
