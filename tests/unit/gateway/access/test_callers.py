"""From a key to its caller: found, refused with the reason, and lost while something goes on."""

import asyncio

import pytest
from sqlalchemy import event
from sqlmodel import Session, select
from tests.support.access import ADMIN, Access

from warren_gateway.access.callers import CACHE_SIZE
from warren_gateway.access.key import InvalidKey, Key
from warren_gateway.store.store import Store
from warren_gateway.store.tables import ApiKey
from warren_schemas.users.access import KeyScope


@pytest.fixture
def access(store: Store) -> Access:
    return Access(store)


async def test_a_key_leads_to_its_user(access: Access) -> None:
    key = await access.new_key("ann")
    assert await access.user_of(key) == "ann"
    assert await access.user_of(f" {key}\n") == "ann"


@pytest.mark.parametrize("text", ["", "wk_", "wk_abcd_short", "Bearer x", "wk_ab/cd_" + "a" * 43])
async def test_what_does_not_read_like_a_key_is_refused(access: Access, text: str) -> None:
    assert await access.user_of(text) is None


async def test_a_wrong_secret_and_an_unknown_id_learn_nothing(access: Access) -> None:
    key = await access.new_key("ann")
    await access.keys.revoke(ADMIN, key.id)
    wrong = Key(key.id, Key.new().secret)
    assert await access.refusal_of(wrong) == await access.refusal_of(Key.new())
    assert "was revoked" in await access.refusal_of(key)


async def test_a_revoked_key_is_refused_at_once_and_can_not_come_back(access: Access) -> None:
    key = await access.new_key("ann")
    assert await access.user_of(key) == "ann"
    await access.keys.revoke(ADMIN, key.id)
    assert await access.user_of(key) is None
    with pytest.raises(InvalidKey, match="revoked"):
        await access.keys.add(key, "ann")


async def test_an_id_can_not_be_taken_over(access: Access) -> None:
    key = await access.new_key("ann")
    with pytest.raises(InvalidKey, match="another key"):
        await access.keys.add(Key(key.id, Key.new().secret), "bob")
    assert await access.user_of(key) == "ann"


async def test_a_key_that_has_expired_is_refused_also_from_the_cache(access: Access) -> None:
    await access.new_key("ann")
    expired = await access.expired_key("ann")
    assert "has expired" in await access.refusal_of(expired)
    with pytest.raises(InvalidKey, match="expired"):
        key = Key.parse(expired)
        assert key is not None
        await access.keys.add(key, "ann")


async def test_the_scope_admin_is_worth_nothing_to_somebody_who_is_no_admin(access: Access) -> None:
    key = await access.new_key("ann")
    await access.store.transact(lambda session: _give(session, key.id, list(KeyScope)))
    assert not (await access.callers.identify(str(key))).is_admin


async def test_the_store_is_asked_once_for_many_requests(access: Access) -> None:
    key = await access.new_key("ann")
    assert await access.user_of(key) == "ann"
    await access.store.close()
    assert await access.user_of(key) == "ann"


async def test_wrong_keys_push_no_right_one_out_of_the_cache(access: Access) -> None:
    key = await access.new_key("ann")
    assert await access.user_of(key) == "ann"
    await asyncio.gather(*(access.user_of(Key.new()) for _ in range(CACHE_SIZE + 1)))
    await access.user_of(Key(key.id, Key.new().secret))
    await access.store.close()
    assert await access.user_of(key) == "ann"


async def test_keys_that_come_together_are_looked_for_together(access: Access) -> None:
    key, n_looks = await access.new_key("ann"), 0

    def count(*_: object) -> None:
        nonlocal n_looks
        n_looks += 1

    event.listen(Session, "after_begin", count)
    gone = asyncio.create_task(access.user_of(Key.new()))
    asked = [access.user_of(each) for each in (*(Key.new() for _ in range(1000)), key)]
    waiting = asyncio.gather(*asked)
    await asyncio.sleep(0)
    gone.cancel()
    assert (await waiting)[-1] == "ann"
    event.remove(Session, "after_begin", count)
    assert 0 < n_looks <= 2


async def test_all_who_ask_together_hear_that_the_store_can_not_be_asked(access: Access) -> None:
    key = await access.new_key("ann")
    await access.store.close()
    told = await asyncio.gather(*(access.user_of(key) for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in told] == [RuntimeError] * 3


async def test_the_store_holds_no_secret(access: Access) -> None:
    key = await access.new_key("ann")
    row = (await access.store.transact(_all_keys))[0]
    assert key.secret not in row.model_dump_json()
    assert key.secret not in repr(key)


async def test_the_last_use_is_noted_for_whoever_has_the_whole_key(access: Access) -> None:
    key = await access.new_key("ann")
    await access.user_of(Key(key.id, Key.new().secret))
    assert (await access.keys.listed(ADMIN, "ann"))[0].last_used_s is None
    await access.user_of(key)
    assert (await access.keys.listed(ADMIN, "ann"))[0].last_used_s is not None


@pytest.mark.parametrize("loss", ["revoked", "disabled", "removed"])
async def test_what_goes_on_for_a_key_hears_that_it_is_lost(access: Access, loss: str) -> None:
    key, other = await access.new_key("ann"), await access.new_key("bob")
    running = asyncio.create_task(access.callers.run())
    with (
        access.callers.watch(await access.callers.identify(str(key))) as lost,
        access.callers.watch(await access.callers.identify(str(other))) as others,
    ):
        if loss == "revoked":
            await access.keys.revoke(ADMIN, key.id)
        else:
            await (access.users.disable if loss == "disabled" else access.users.remove)("ann")
        await lost.wait()
        assert not others.is_set()
    running.cancel()


async def test_what_another_gateway_revoked_is_heard_of_as_well(access: Access) -> None:
    here, elsewhere, key = access, Access(access.store), await access.new_key("ann")
    with here.callers.watch(await here.callers.identify(str(key))) as lost:
        await elsewhere.keys.revoke(ADMIN, key.id)
        await here.callers.look()
        assert lost.is_set()


def _all_keys(session: Session) -> list[ApiKey]:
    return list(session.exec(select(ApiKey)))


def _give(session: Session, key: str, scopes: list[KeyScope]) -> None:
    row = session.get(ApiKey, key)
    assert row is not None
    row.scopes = [scope.value for scope in scopes]
