"""Every route of the HTTP API: each module of handlers has a `ROUTES` of its own.

`/openapi.json` lists them in this order.
"""

from warren_gateway.api import access, dead_letters, env_workers, fleet, health, limits
from warren_gateway.api.openai import routes as openai
from warren_gateway.api.route import Route
from warren_gateway.api.runs import (
    checking,
    checkpoints,
    events,
    files,
    metrics,
    sharing,
    steering,
    submission,
    trajectories,
)

ROUTES: tuple[Route, ...] = (
    *submission.ROUTES,
    *steering.ROUTES,
    *checking.ROUTES,
    *sharing.ROUTES,
    *checkpoints.ROUTES,
    *files.ROUTES,
    *events.ROUTES,
    *metrics.ROUTES,
    *trajectories.ROUTES,
    *openai.ROUTES,
    *fleet.ROUTES,
    *env_workers.ROUTES,
    *dead_letters.ROUTES,
    *access.ROUTES,
    *limits.ROUTES,
    *health.ROUTES,
)
