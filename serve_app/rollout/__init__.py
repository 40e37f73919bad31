"""The way of a serve config onto a cluster: check, deploy, roll back, canary."""
