"""The workers, queues and budgets of the deployment over HTTP."""

import asyncio

from aiohttp import web

from warren_broker.port import Broker
from warren_broker.topology import DEAD, WorkQueue, compare, generate, interact, results, train
from warren_gateway.api.problems import Refusal
from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_gateway.probe import within
from warren_gateway.registry import Registry
from warren_gateway.runs.service import LiveModel
from warren_gateway.runs.views import worker_view
from warren_gateway.scheduling.draining import NoSuchWorker
from warren_schemas.control import WorkerRole
from warren_schemas.http import Problem, QueueList, QueueView, WorkerList, WorkerView
from warren_schemas.users.access import KeyScope
from warren_schemas.users.budgets import BudgetList

DEPTHS_S = 5.0
"""How long the broker has to tell the depths."""


async def list_workers(call: Call[Nothing]) -> web.StreamResponse:
    seen = call.services.registry.seen()
    mine = [worker for worker in seen if worker.heartbeat.owner in (None, call.owner)]
    return reply(WorkerList(workers=tuple(worker_view(worker) for worker in mine)))


async def drain_worker(call: Call[Nothing]) -> web.StreamResponse:
    return await _drain(call, is_drained=True)


async def undrain_worker(call: Call[Nothing]) -> web.StreamResponse:
    return await _drain(call, is_drained=False)


async def _drain(call: Call[Nothing], *, is_drained: bool) -> web.StreamResponse:
    worker = call.request.match_info["worker"]
    try:
        return reply(worker_view(await call.services.draining.want(worker, is_drained=is_drained)))
    except NoSuchWorker as error:
        problem = Problem(
            code="no_such_worker",
            message=f"No worker {worker} is online.",
            hint="`warren workers` lists those that are.",
        )
        raise Refusal(404, problem) from error


async def list_queues(call: Call[Nothing]) -> web.StreamResponse:
    models = await call.services.runs.live_models(call.viewer)
    queues = [*_offered(call.services.registry, call.owner), DEAD, *_of_models(models)]
    asking = asyncio.gather(*(_view(call.services.broker, queue) for queue in queues))
    views = await within(DEPTHS_S, asking)
    return reply(QueueList(queues=tuple(view for view in views if view)))


async def list_budgets(call: Call[Nothing]) -> web.StreamResponse:
    views = call.services.budgets.views(call.owner, call.caller.requests_per_s, call.request.remote)
    return reply(BudgetList(budgets=views))


def _offered(registry: Registry, owner: str) -> list[WorkQueue]:
    samplers = registry.alive(WorkerRole.SAMPLER)
    hosts = registry.alive(WorkerRole.ENVIRONMENT)
    queues = {generate(model) for sampler in samplers for model in sampler.offers}
    queues |= {
        queue(environment, host.owner)
        for host in hosts
        if host.owner in (None, owner)
        for environment in host.offers
        for queue in (interact, compare)
    }
    return sorted(queues, key=lambda queue: queue.name)


def _of_models(models: list[LiveModel]) -> list[WorkQueue]:
    """Ops under way to the trainer, and its answers; an epoch of 0 was never granted."""
    trained = [train(model.id, model.epoch) for model in models if model.epoch]
    return [*trained, *(results(model.id) for model in models)]


async def _view(broker: Broker, queue: WorkQueue) -> QueueView | None:
    n_ready = await broker.depth(queue)
    return None if n_ready is None else QueueView(name=queue.name, n_ready=n_ready)


ROUTES = (
    Route(
        "GET",
        "/v1/workers",
        list_workers,
        takes=Nothing,
        answers=WorkerList,
        summary="List the workers online",
        scope=KeyScope.READ,
        errors=(422,),
    ),
    Route(
        "POST",
        "/v1/workers/{worker}/drain",
        drain_worker,
        takes=Nothing,
        answers=WorkerView,
        summary="Drain a worker: it takes no new work and gives its models away, so that it can be stopped",
        scope=KeyScope.ADMIN,
        errors=(400, 404, 413, 422),
    ),
    Route(
        "POST",
        "/v1/workers/{worker}/undrain",
        undrain_worker,
        takes=Nothing,
        answers=WorkerView,
        summary="Stop draining a worker",
        scope=KeyScope.ADMIN,
        errors=(400, 404, 413, 422),
    ),
    Route(
        "GET",
        "/v1/queues",
        list_queues,
        takes=Nothing,
        answers=QueueList,
        summary="List queues with the number of messages in each",
        scope=KeyScope.READ,
        errors=(422,),
    ),
    Route(
        "GET",
        "/v1/budgets",
        list_budgets,
        takes=Nothing,
        answers=BudgetList,
        summary="List how much of what users share you have in use, and your limits",
        scope=KeyScope.READ,
        errors=(422,),
    ),
)
