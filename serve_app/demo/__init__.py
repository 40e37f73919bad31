"""The closed loop: SUMO drives traffic on the road network, the running system its signals."""
