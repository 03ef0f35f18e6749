"""Every verb in every state of a run: what is answered, and that a refusal changes nothing.

A verb or a state without an entry fails here.
"""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from sqlalchemy import update
from sqlmodel import col
from tests.support.gateway import Gateway

from warren_gateway.api.runs import steering, submission
from warren_gateway.store.store import Store
from warren_gateway.store.tables import JobRow, Run
from warren_schemas.events import RunState

CANCEL, SAVE, FINISH, PAUSE, RESUME, SET, RETRY, DELETE = VERBS = (
    "cancel", "cancel --save", "finish", "pause", "resume", "set", "retry", "delete",
)  # fmt: skip
OVER = "has ended already: it is {state}"
LIVE = "is {state}, and only one that failed or was cancelled can be retried"
GOING = "is {state}: cancel it first"

TABLE: dict[RunState, dict[str, int | str]] = {
    RunState.QUEUED: {
        CANCEL: 200, SAVE: 200, FINISH: "is queued and has done nothing", PAUSE: 200, RESUME: 200, SET: 200,
        RETRY: LIVE, DELETE: GOING,
    },
    RunState.STARTING: {
        CANCEL: 200, SAVE: 200, FINISH: 200, PAUSE: 200, RESUME: 200, SET: 200, RETRY: LIVE, DELETE: GOING,
    },
    RunState.RUNNING: {
        CANCEL: 200, SAVE: 200, FINISH: 200, PAUSE: 200, RESUME: 200, SET: 200, RETRY: LIVE, DELETE: GOING,
    },
    RunState.PAUSED: {
        CANCEL: 200, SAVE: 200, FINISH: "is paused", PAUSE: 200, RESUME: 200, SET: 200, RETRY: LIVE, DELETE: GOING,
    },
    RunState.FINISHING: {
        CANCEL: 200, SAVE: 200, FINISH: 200, PAUSE: "is finishing", RESUME: 200, SET: 200, RETRY: LIVE, DELETE: GOING,
    },
    RunState.COMPLETED: {
        CANCEL: OVER, SAVE: OVER, FINISH: 200, PAUSE: OVER, RESUME: OVER, SET: OVER, RETRY: OVER, DELETE: 200,
    },
    RunState.FAILED: {
        CANCEL: OVER, SAVE: OVER, FINISH: OVER, PAUSE: OVER, RESUME: OVER, SET: OVER, RETRY: 201, DELETE: 200,
    },
    RunState.CANCELLED: {
        CANCEL: 200, SAVE: 200, FINISH: OVER, PAUSE: OVER, RESUME: OVER, SET: OVER, RETRY: 201, DELETE: 200,
    },
}  # fmt: skip


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    """Everything here holds on both databases."""
    store = await Store.open(any_store_url)
    yield store
    await store.close()


def test_the_table_has_every_state_and_every_verb() -> None:
    assert set(TABLE) == set(RunState)
    assert all(set(row) == set(VERBS) for row in TABLE.values())
    posts = [r for r in (*steering.ROUTES, *submission.ROUTES) if "{run}/" in r.path]
    verbs = {r.path.rpartition("/")[2] for r in posts} - {
        "renew"
    }  # of a client's lease, see test_client_leases
    assert verbs == {verb.split()[0] for verb in VERBS}


async def ask(gateway: Gateway, run: str, verb: str) -> tuple[int, str]:
    name, _, option = verb.partition(" --")
    body = {option: True} if option else {"priority": -1} if name == SET else {}
    async with gateway.ann.post(f"/v1/runs/{run}/{name}", json=body) as response:
        return response.status, (await response.json()).get("message", "")


async def rows_of(gateway: Gateway, run: str) -> list[dict[str, Any]]:
    def read(session: Any) -> list[dict[str, Any]]:
        job = session.exec(JobRow.__table__.select().where(col(JobRow.run_id) == run))  # type: ignore[attr-defined]
        return [session.get_one(Run, run).model_dump(), dict(job.mappings().one())]

    return await gateway.store.transact(read)


@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_is_answered_as_the_state_asks_for(gateway: Gateway, verb: str) -> None:
    for state, answers in TABLE.items():
        run = await gateway.submit()
        change = update(Run).where(col(Run.id) == run).values(state=state)
        await gateway.store.transact(lambda session, change=change: session.exec(change))
        before = await rows_of(gateway, run)

        status, message = await ask(gateway, run, verb)

        expected = answers[verb]
        if isinstance(expected, int):
            assert (state, status) == (state, expected)
        else:
            assert (state, status) == (state, 409)
            assert expected.format(state=state) in message
            assert await rows_of(gateway, run) == before
