"""Every process of the engine in one event loop, with every fault, and a judge.

As in the simulations of FoundationDB and TigerBeetle, a schedule is drawn from one seed, played in
virtual time, and judged by what its clients see. ``make soak`` explores new schedules.

States have one of several shapes and data types (:data:`.history.FORMS`).
Replicas with their batchers and leases, authorities and the layout are the real code. Clocks,
schedulers (:mod:`.loop`), the network, the store and Ray are simulated.
"""
