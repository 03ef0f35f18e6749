"""The results of a run's evaluations over HTTP."""

from aiohttp import web
from pydantic import FiniteFloat

from warren_gateway.api.problems import Refusal
from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_gateway.evaluations.stored import NoSuchEvaluation
from warren_schemas.base import Frozen
from warren_schemas.config import PositiveInt
from warren_schemas.http import EvaluationList, EvaluationReport, Problem
from warren_schemas.users.access import KeyScope


class ReadEvaluation(Frozen):
    number: PositiveInt | None = None
    """Which one of the run's; left out, the newest."""
    solved_at: FiniteFloat = 1.0
    """An episode solves its task if its reward is at least this."""


async def list_evaluations(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.evaluations.list(call.viewer, call.run))


async def show_evaluation(call: Call[ReadEvaluation]) -> web.StreamResponse:
    number, solved_at = call.takes.number, call.takes.solved_at
    evaluations = call.services.evaluations
    try:
        return reply(await evaluations.report(call.viewer, call.run, number, solved_at))
    except NoSuchEvaluation as error:
        hint = f"`warren eval show {call.run}` shows its newest one, `warren runs show {call.run}` how far it is."
        problem = Problem(code="no_such_evaluation", message=f"{error}.", hint=hint)
        raise Refusal(404, problem) from error


ROUTES = (
    Route(
        "GET",
        "/v1/runs/{run}/evaluations",
        list_evaluations,
        takes=Nothing,
        answers=EvaluationList,
        summary="List the evaluations of a run, oldest first",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
    Route(
        "GET",
        "/v1/runs/{run}/evaluation",
        show_evaluation,
        takes=ReadEvaluation,
        answers=EvaluationReport,
        summary="Show the results of an evaluation of a run, with those of each task",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
)
