"""Use is counted once, in the transaction of what it was for, and told by run, user and day."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlmodel import Session
from tests.support.access import ADMIN, user
from tests.support.gateway import CONFIG

from warren_gateway.access.problems import NotPermitted
from warren_gateway.scheduling.owner_shares import owner_shares
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Checkpoint, Model, Run
from warren_gateway.usage.counting import DAY_S, HALF_LIFE_S, Used, count, recent_use
from warren_gateway.usage.limits import DEFAULT_LIMITS
from warren_gateway.usage.service import UsageReports

TODAY_S = 20_000.0 * DAY_S


def counting(run: str, owner: str, used: Used, now_s: float) -> Callable[[Session], None]:
    return lambda session: count(session, run=run, owner=owner, used=used, now_s=now_s)


def add_run(run: str, owner: str) -> Callable[[Session], None]:
    def add(session: Session) -> None:
        session.add(
            Run(
                id=run,
                owner=owner,
                name="r",
                config=CONFIG,
                state="running",
                n_steps=1,
                created_s=1.0,
            )
        )
        session.flush()
        model = f"model_of_{run}"
        session.add(
            Model(
                id=model,
                run_id=run,
                base_model="b",
                spec={},
                policy_bytes=10,
                policies=[(1, 1), (2, 2)],
            )
        )
        session.flush()
        for name, size in (("step-1", 100), ("step-2", 200)):
            values: dict[str, Any] = {
                "version": 1,
                "step": 1,
                "op": 1,
                "url": "u",
                "created_s": 1.0,
            }
            session.add(Checkpoint(model_id=model, name=name, size_bytes=size, **values))

    return add


async def test_use_adds_up_and_is_told_by_run_user_and_day(any_store_url: str) -> None:
    store = await Store.open(any_store_url)
    for run, owner in (("run_1", "ann"), ("run_2", "bob")):
        await store.transact(add_run(run, owner))
    one = Used(training_gpu_s=2.0, sampling_gpu_s=1.0, n_tokens_trained=30, n_episodes=4)
    for run, owner, now_s in (
        ("run_1", "ann", TODAY_S),
        ("run_1", "ann", TODAY_S + 1),
        ("run_1", "ann", TODAY_S + DAY_S),
        ("run_2", "bob", TODAY_S),
        ("run_2", "bob", TODAY_S),
    ):
        await store.transact(counting(run, owner, one, now_s))
    reports, ann = UsageReports(store), user("ann")
    by_run = await reports.listed(ADMIN, by="run", user=None, since_s=0)
    assert [(u.run, u.user, u.training_gpu_s, u.n_episodes, u.stored_bytes) for u in by_run] == [
        ("run_2", "bob", 4.0, 8, 320),
        ("run_1", "ann", 6.0, 12, 320),
    ]
    (own,) = await reports.listed(ann, by="user", user=None, since_s=0)
    assert (own.user, own.sampling_gpu_s, own.n_tokens_trained) == ("ann", 3.0, 90)
    assert own.stored_bytes == 320
    days = await reports.listed(ADMIN, by="day", user=None, since_s=0)
    assert [(u.day, u.n_episodes) for u in days] == [("2024-10-05", 4), ("2024-10-04", 16)]
    assert len(await reports.listed(ann, by="day", user="ann", since_s=TODAY_S + DAY_S)) == 1
    with pytest.raises(NotPermitted):
        await reports.listed(ann, by="run", user="bob", since_s=0)
    await store.close()


async def test_recent_use_halves_with_time_and_what_is_rolled_back_counts_for_nothing(
    any_store_url: str,
) -> None:
    store = await Store.open(any_store_url)
    half = Used(training_gpu_s=50.0, sampling_gpu_s=50.0)
    await store.transact(counting("run_1", "ann", half, TODAY_S))
    await store.transact(counting("run_1", "ann", half, TODAY_S + HALF_LIFE_S))

    def fail(session: Session) -> None:
        count(session, run="run_1", owner="ann", used=half, now_s=TODAY_S)
        raise KeyError

    with pytest.raises(KeyError):
        await store.transact(fail)
    now_s = TODAY_S + 2 * HALF_LIFE_S
    found = await store.transact(lambda session: recent_use(session, ["ann", "bob"], now_s))
    assert found == {"ann": pytest.approx(75.0)}
    owners = {"ann", "bob"}
    shares = await store.transact(lambda s: owner_shares(s, owners, DEFAULT_LIMITS, now_s))
    assert shares["ann"].used_gpu_s == pytest.approx(75.0) and shares["bob"].used_gpu_s == 0
    assert {share.most_held for share in shares.values()} == {1000}
    await store.close()
