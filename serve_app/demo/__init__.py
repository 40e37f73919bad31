"""The closed loop: SUMO simulates traffic, and the running system controls its signals."""
