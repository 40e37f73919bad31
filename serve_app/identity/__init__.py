"""An instance's secrets: the key of its tokens, its first user, files that only the owner reads."""
