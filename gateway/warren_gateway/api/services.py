"""The services that the HTTP handlers call."""

import asyncio
from dataclasses import dataclass, field

from warren_broker.port import Broker
from warren_gateway.access.audit import Audit
from warren_gateway.access.callers import Callers
from warren_gateway.access.keys import ApiKeys
from warren_gateway.access.users import Users
from warren_gateway.adapters.service import Adapters
from warren_gateway.base_models.service import BaseModels
from warren_gateway.budgets.pool import Budgets
from warren_gateway.checking.service import Checking
from warren_gateway.datasets.service import Datasets
from warren_gateway.evaluations.stored import Evaluations
from warren_gateway.following.followers import Followers
from warren_gateway.following.log_marks import LogMarks
from warren_gateway.inference.names import ServedNames
from warren_gateway.inference.sampler_requests import SamplerRequests
from warren_gateway.inference.served import Served
from warren_gateway.metrics.reports import Reports
from warren_gateway.probe import Probe
from warren_gateway.recordings.stored import Recordings
from warren_gateway.registry import Registry
from warren_gateway.remote.sessions import RemoteSessions
from warren_gateway.runs.client_leases import ClientLeases
from warren_gateway.runs.service import Runs
from warren_gateway.runs.sharing import Sharing
from warren_gateway.scheduling.draining import Draining
from warren_gateway.timings import StreamTimings
from warren_gateway.tinker.services import Tinker
from warren_gateway.trainable.service import Models
from warren_gateway.usage.limits import UserLimits
from warren_gateway.usage.service import UsageReports


@dataclass(frozen=True, slots=True)
class Services:
    broker: Broker
    registry: Registry
    draining: Draining
    runs: Runs
    checking: Checking
    client_leases: ClientLeases
    models: Models
    sharing: Sharing
    callers: Callers
    users: Users
    keys: ApiKeys
    user_limits: UserLimits
    usage: UsageReports
    audit: Audit
    recordings: Recordings
    reports: Reports
    evaluations: Evaluations
    datasets: Datasets
    adapters: Adapters
    base_models: BaseModels
    remote_sessions: RemoteSessions
    served: Served
    names: ServedNames
    sampler_requests: SamplerRequests
    tinker: Tinker
    budgets: Budgets
    followers: Followers
    store_probe: Probe
    broker_probe: Probe
    log_marks: LogMarks = field(default_factory=LogMarks)
    timings: StreamTimings = field(default_factory=StreamTimings)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the gateway stops: streams of events end at once."""
