"""Bodies of the HTTP API. `__all__` is what users of the SDK hold; `warren` exports it as it is.

What the modules export is exported here, so that a new body needs no line in this file.
"""

from warren_schemas.http import (
    adapters,
    base_models,
    checkpoints,
    datasets,
    deployment,
    evaluations,
    model_ops,
    records,
    runs,
    serving,
    trainable,
)
from warren_schemas.http.adapters import *
from warren_schemas.http.adapters import AdapterList as AdapterList
from warren_schemas.http.adapters import ChooseAdapter as ChooseAdapter
from warren_schemas.http.adapters import CreateAdapter as CreateAdapter
from warren_schemas.http.adapters import ShareAdapter as ShareAdapter
from warren_schemas.http.base_models import *
from warren_schemas.http.base_models import BaseModelFile as BaseModelFile
from warren_schemas.http.base_models import BaseModelList as BaseModelList
from warren_schemas.http.base_models import ChooseBaseModel as ChooseBaseModel
from warren_schemas.http.base_models import CreateBaseModel as CreateBaseModel
from warren_schemas.http.base_models import ShareBaseModel as ShareBaseModel
from warren_schemas.http.checkpoints import *
from warren_schemas.http.checkpoints import PolicyView as PolicyView
from warren_schemas.http.datasets import *
from warren_schemas.http.datasets import ChooseDataset as ChooseDataset
from warren_schemas.http.datasets import CreateDataset as CreateDataset
from warren_schemas.http.datasets import DatasetList as DatasetList
from warren_schemas.http.datasets import ShareDataset as ShareDataset
from warren_schemas.http.datasets import UploadedFile as UploadedFile
from warren_schemas.http.deployment import *
from warren_schemas.http.deployment import DeadLetterList as DeadLetterList
from warren_schemas.http.deployment import QueueList as QueueList
from warren_schemas.http.deployment import WorkerList as WorkerList
from warren_schemas.http.evaluations import *
from warren_schemas.http.evaluations import EvaluationList as EvaluationList
from warren_schemas.http.model_ops import *
from warren_schemas.http.problem import Problem as Problem
from warren_schemas.http.records import *
from warren_schemas.http.runs import *
from warren_schemas.http.runs import CancelRun as CancelRun
from warren_schemas.http.runs import QueuePlace as QueuePlace
from warren_schemas.http.runs import RunDeleted as RunDeleted
from warren_schemas.http.runs import RunList as RunList
from warren_schemas.http.runs import SetRun as SetRun
from warren_schemas.http.runs import SubmitRun as SubmitRun
from warren_schemas.http.runs import SweepName as SweepName
from warren_schemas.http.serving import *
from warren_schemas.http.serving import RemoveServed as RemoveServed
from warren_schemas.http.serving import ServedList as ServedList
from warren_schemas.http.serving import ServeModel as ServeModel
from warren_schemas.http.trainable import *
from warren_schemas.http.uploads import UploadProgress as UploadProgress
from warren_schemas.http.uploads import VersionsDeleted as VersionsDeleted

__all__: list[str] = []
__all__ += adapters.__all__
__all__ += base_models.__all__
__all__ += checkpoints.__all__
__all__ += datasets.__all__
__all__ += deployment.__all__
__all__ += evaluations.__all__
__all__ += records.__all__
__all__ += runs.__all__
__all__ += serving.__all__
__all__ += model_ops.__all__
__all__ += trainable.__all__
