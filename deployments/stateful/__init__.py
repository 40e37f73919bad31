"""An engine that keeps recurrent states exactly, for any model.

It knows keys, arrays, steps and time. :mod:`.protocol` has the rules on one page. A service
connects with :func:`deployments.stateful.ray.client.connect_engine` and steps its model with a
:class:`deployments.stateful.replica.batcher.Batcher`.
"""
