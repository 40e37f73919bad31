"""An engine that keeps recurrent states exactly, for any model.

States are rows of a table in shared memory (:mod:`.table`), a step is one transaction on it, and a
home per shard copies the rows to a store (:mod:`.home`). A replica calls :meth:`Engine.connect`,
and steps its :class:`Model` with :meth:`Engine.batcher`.
"""

from deployments.stateful.engine import Engine
from deployments.stateful.errors import StateError
from deployments.stateful.model import Model
from deployments.stateful.options import StateOptions
from deployments.stateful.row import Key

__all__ = ["Engine", "Key", "Model", "StateError", "StateOptions"]
