"""The scoreboard: classic controllers on the public scenarios of RESCO, where its user has them."""
