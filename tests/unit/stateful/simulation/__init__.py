"""Every process of the hidden states in one event loop, with every fault, and a judge.

As in the simulations that FoundationDB and TigerBeetle are tested with: a schedule is drawn from
one number, carried out in virtual time, and judged by what its clients saw. ``python -m
tests.unit.stateful.simulation --help`` explores for as long as one likes.

What is real: replicas with their steppers and leases, authorities, the layout. What is a model: the
clocks and schedulers of their processes (:mod:`.loop`), the network, the store and Ray.
"""
