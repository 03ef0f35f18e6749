"""Training messages: the op log of a model, and what the trainer answers.

A model is a numbered log of ops, 1, 2, 3 and so on, stored before they are sent. The trainer that
holds the model's lease applies each exactly once, in order, and answers every number. A lease has
an epoch; ops travel on `train.<model>.<epoch>`, and answers of an older epoch are ignored.

What the modules export is exported here, so that a new message needs no line in this file.
"""

from warren_schemas.training import checkpoints, leases, model, ops, results
from warren_schemas.training.checkpoints import *
from warren_schemas.training.leases import *
from warren_schemas.training.model import *
from warren_schemas.training.ops import *
from warren_schemas.training.results import *

__all__: list[str] = []
__all__ += checkpoints.__all__
__all__ += leases.__all__
__all__ += model.__all__
__all__ += ops.__all__
__all__ += results.__all__
