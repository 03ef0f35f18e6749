"""Configs that are checked and not submitted, over HTTP."""

from aiohttp import web

from warren_gateway.api.route import Call, Route, reply
from warren_gateway.checking.estimate import estimate
from warren_gateway.checking.needs import mistakes_and_notes
from warren_schemas.check import RunCheck
from warren_schemas.http import SubmitRun
from warren_schemas.users.access import KeyScope


async def check_run(call: Call[SubmitRun]) -> web.StreamResponse:
    found = await call.services.checking.look(call.viewer, call.takes.config)
    mistakes, notes = mistakes_and_notes(
        found.config, call.owner, call.services.registry.alive, call.services.served.advice,
        learns_recorded=found.learns_recorded,
    )  # fmt: skip
    return reply(
        RunCheck(
            mistakes=(*found.mistakes, *mistakes),
            notes=notes,
            estimate=estimate(found.config, found.checkpoint_bytes),
            expected=found.expected,
        )
    )


ROUTES = (
    Route(
        "POST",
        "/v1/runs/check",
        check_run,
        takes=SubmitRun,
        answers=RunCheck,
        summary="Check a config against the workers online and estimate its cost; submits nothing",
        scope=KeyScope.READ,
        errors=(400, 413, 422),
    ),
)
