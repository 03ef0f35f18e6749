"""Every route of the HTTP API: each module of handlers has a `ROUTES` of its own.

`/openapi.json` lists them in this order.
"""

from warren_gateway.api import (
    access,
    dead_letters,
    deployment,
    env_workers,
    health,
    limits,
    serving,
)
from warren_gateway.api.openai import routes as openai
from warren_gateway.api.route import Route
from warren_gateway.api.runs import (
    checking,
    checkpoints,
    evaluations,
    events,
    files,
    logs,
    metrics,
    sharing,
    steering,
    submission,
    trajectories,
)
from warren_gateway.api.tinker import account as tinker_account
from warren_gateway.api.tinker import checkpoints as tinker_checkpoints
from warren_gateway.api.tinker import downloads as tinker_downloads
from warren_gateway.api.tinker import futures as tinker_futures
from warren_gateway.api.tinker import models as tinker_models
from warren_gateway.api.tinker import runs as tinker_runs
from warren_gateway.api.tinker import sampling as tinker_sampling
from warren_gateway.api.tinker import sessions as tinker_sessions
from warren_gateway.api.tinker import training as tinker_training
from warren_gateway.api.trainable import routes as trainable
from warren_gateway.api.uploads import adapters, base_models, datasets

ROUTES: tuple[Route, ...] = (
    *submission.ROUTES,
    *steering.ROUTES,
    *checking.ROUTES,
    *sharing.ROUTES,
    *checkpoints.ROUTES,
    *evaluations.ROUTES,
    *files.ROUTES,
    *events.ROUTES,
    *logs.ROUTES,
    *metrics.ROUTES,
    *trajectories.ROUTES,
    *serving.ROUTES,
    *datasets.ROUTES,
    *adapters.ROUTES,
    *base_models.ROUTES,
    *trainable.ROUTES,
    *openai.ROUTES,
    *tinker_sessions.ROUTES,
    *tinker_sampling.ROUTES,
    *tinker_futures.ROUTES,
    *tinker_models.ROUTES,
    *tinker_training.ROUTES,
    *tinker_runs.ROUTES,
    *tinker_checkpoints.ROUTES,
    *tinker_downloads.ROUTES,
    *tinker_account.ROUTES,
    *deployment.ROUTES,
    *env_workers.ROUTES,
    *dead_letters.ROUTES,
    *access.ROUTES,
    *limits.ROUTES,
    *health.ROUTES,
)
