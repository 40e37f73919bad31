"""How the policies and forecasts are trained; needs SUMO and PyTorch, which serving does not."""
