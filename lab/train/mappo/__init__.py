"""MAPPO: the trainer of all policies.

Yu et al., "The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games", 2022: one actor
shared by all agents, a central critic that sees the whole network and serves training only, value
normalisation, and PPO's clipped objective (Schulman et al., 2017) with advantages by GAE (Schulman
et al., 2016). The actor's GRU learns through chunks of time that begin with stored hidden states.
Each traffic is driven several times, and its repeats are each other's baseline.

A run is kept in a folder: ``checkpoint.pt`` after every iteration, ``log.csv``, and ``best.th``,
the weights that did best on validation. The same command continues where a run was killed. The same
configuration gives the same curve, whatever the number of workers.
"""
