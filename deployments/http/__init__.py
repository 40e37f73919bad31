"""What the HTTP side of every service shares."""
