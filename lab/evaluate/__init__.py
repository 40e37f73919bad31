"""Controllers and policies compared: on a user's city, on the shipped network, on RESCO's maps."""
