"""How the weights were made; needs SUMO, which serving does not."""
