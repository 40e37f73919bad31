"""The engine: keeps recurrent state exactly, for any model."""
