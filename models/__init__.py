"""Networks, policies and forecasts as they are served, in NumPy; no Ray, FastAPI or PyTorch."""
