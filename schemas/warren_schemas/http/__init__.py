"""Bodies of the HTTP API. `__all__` is what users of the SDK hold; `warren` exports it as it is.

What the modules export is exported here, so that a new body needs no line in this file.
"""

from warren_schemas.http import checkpoints, deployment, records, runs
from warren_schemas.http.checkpoints import *
from warren_schemas.http.checkpoints import PolicyView as PolicyView
from warren_schemas.http.deployment import *
from warren_schemas.http.deployment import DeadLetterList as DeadLetterList
from warren_schemas.http.deployment import QueueList as QueueList
from warren_schemas.http.deployment import WorkerList as WorkerList
from warren_schemas.http.problem import Problem as Problem
from warren_schemas.http.records import *
from warren_schemas.http.runs import *
from warren_schemas.http.runs import CancelRun as CancelRun
from warren_schemas.http.runs import QueuePlace as QueuePlace
from warren_schemas.http.runs import RunDeleted as RunDeleted
from warren_schemas.http.runs import RunList as RunList
from warren_schemas.http.runs import SetRun as SetRun
from warren_schemas.http.runs import SubmitRun as SubmitRun

__all__: list[str] = []
__all__ += checkpoints.__all__
__all__ += deployment.__all__
__all__ += records.__all__
__all__ += runs.__all__
