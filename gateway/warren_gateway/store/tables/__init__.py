"""Tables. Times are Unix seconds, sizes bytes, JSON columns hold dumped schemas.

They are imported from here and not from the modules, for all of them must be known before the first is used: foreign
keys name tables of other modules.

Invariant: a change of state and the messages that announce it (rows of `outbox`) are one transaction.
"""

from sqlmodel import SQLModel

from warren_gateway.store.tables.adapters import AdapterRow, AdapterShareRow
from warren_gateway.store.tables.base_models import BaseModelRow, BaseModelShareRow
from warren_gateway.store.tables.clients import RequestRow, SnapshotRow
from warren_gateway.store.tables.datasets import (
    DatasetRow,
    DatasetShareRow,
    DatasetUploadRow,
    RunDatasetRow,
)
from warren_gateway.store.tables.evaluations import EvaluationRow
from warren_gateway.store.tables.groups import GroupRow
from warren_gateway.store.tables.jobs import JobRow, SchedulerRow
from warren_gateway.store.tables.models import Checkpoint, Model, OpRow
from warren_gateway.store.tables.outbox import OutboxRow
from warren_gateway.store.tables.runs import HistoryRow, MetricsRow, Run, ShareRow
from warren_gateway.store.tables.serving import ServedRow
from warren_gateway.store.tables.tinker import (
    TinkerDownload,
    TinkerSample,
    TinkerSampler,
    TinkerSession,
)
from warren_gateway.store.tables.usage import RecentUse, SamplingUse, UsageRow
from warren_gateway.store.tables.users import ApiKey, AuditRow, User
from warren_gateway.store.tables.workers import DrainedWorker

__all__ = [
    "AdapterRow",
    "AdapterShareRow",
    "ApiKey",
    "AuditRow",
    "BaseModelRow",
    "BaseModelShareRow",
    "Checkpoint",
    "DatasetRow",
    "DatasetShareRow",
    "DatasetUploadRow",
    "DrainedWorker",
    "EvaluationRow",
    "GroupRow",
    "HistoryRow",
    "JobRow",
    "MetricsRow",
    "Model",
    "OpRow",
    "OutboxRow",
    "RecentUse",
    "RequestRow",
    "Run",
    "RunDatasetRow",
    "SQLModel",
    "SamplingUse",
    "SchedulerRow",
    "ServedRow",
    "ShareRow",
    "SnapshotRow",
    "TinkerDownload",
    "TinkerSample",
    "TinkerSampler",
    "TinkerSession",
    "UsageRow",
    "User",
]
