"""Users and their keys: nobody makes more of a key than they have, and names are for ever."""

import time
from itertools import combinations

import pytest
from sqlmodel import Session
from tests.support.access import ADMIN, Access, user
from tests.support.gateway import CONFIG

from warren_gateway.access.key import Key
from warren_gateway.access.keys import MOST_LISTED
from warren_gateway.access.problems import (
    KeyHasEnded,
    NoSuchKey,
    NoSuchUser,
    NotPermitted,
    UserConflict,
)
from warren_gateway.store.store import Store
from warren_gateway.store.tables import ApiKey, Run
from warren_schemas.users.access import USER_SCOPES, AddUser, CreateKey, KeyScope, RotateKey

SUBSETS = [subset for n in range(1, len(KeyScope) + 1) for subset in combinations(KeyScope, n)]


@pytest.fixture
def access(store: Store) -> Access:
    return Access(store)


async def test_a_new_user_can_do_everything_but_rule(access: Access) -> None:
    added = await access.users.add(AddUser(name="ann"))
    caller = await access.callers.identify(added.first_key.key)
    assert (caller.user, caller.scopes) == ("ann", frozenset(USER_SCOPES))
    assert (added.user.n_keys, added.user.is_admin) == (1, False)


async def test_a_new_admin_rules(access: Access) -> None:
    added = await access.users.add(AddUser(name="ann", is_admin=True))
    assert (await access.callers.identify(added.first_key.key)).is_admin


async def test_a_name_is_taken_for_ever(access: Access) -> None:
    await access.users.add(AddUser(name="ann"))
    with pytest.raises(UserConflict, match="ann already"):
        await access.users.add(AddUser(name="ann"))
    await access.users.remove("ann")
    with pytest.raises(UserConflict, match="there was one"):
        await access.users.add(AddUser(name="ann"))
    assert await access.users.listed() == ()


async def test_keys_of_a_disabled_user_are_refused_until_they_are_enabled(access: Access) -> None:
    key = await access.new_key("ann")
    await access.users.disable("ann")
    assert "ann is disabled" in await access.refusal_of(key)
    await access.users.enable("ann")
    assert await access.user_of(key) == "ann"


async def test_a_removed_user_is_gone(access: Access) -> None:
    key = await access.new_key("ann")
    assert (await access.users.remove("ann")).n_keys == 0
    assert await access.user_of(key) is None
    for change in (access.users.remove, access.users.disable, access.users.enable):
        with pytest.raises(NoSuchUser, match="no user ann"):
            await change("ann")


async def test_a_user_whose_runs_go_on_is_not_removed(access: Access) -> None:
    await access.new_key("ann")
    await access.store.transact(lambda session: session.add(_run("ann", "running")))
    with pytest.raises(UserConflict, match="1 runs that are not over"):
        await access.users.remove("ann")


async def test_the_gateways_own_user_stays(access: Access) -> None:
    await access.new_key("local")
    for change in (access.users.remove, access.users.disable):
        with pytest.raises(UserConflict, match="own user"):
            await change("local")


@pytest.mark.parametrize("has", SUBSETS, ids=",".join)
async def test_no_key_makes_one_that_may_do_more(access: Access, has: tuple[KeyScope, ...]) -> None:
    await access.new_key("local")
    caller = user("local", *has)
    for wants in SUBSETS:
        wanted = CreateKey(scopes=wants)
        if caller.is_admin or set(wants) <= set(has):
            made = await access.keys.create(caller, wanted)
            assert (await access.callers.identify(made.key)).scopes == set(wants)
        else:
            with pytest.raises(NotPermitted, match="can't give it away"):
                await access.keys.create(caller, wanted)


async def test_only_an_admin_makes_and_sees_keys_of_others(access: Access) -> None:
    await access.new_key("ann")
    with pytest.raises(NotPermitted, match="for others"):
        await access.keys.create(user("bob"), CreateKey(user="ann"))
    with pytest.raises(NotPermitted, match="of others"):
        await access.keys.listed(user("bob"), "ann")
    assert (await access.keys.create(ADMIN, CreateKey(user="ann"))).view.user == "ann"
    assert len(await access.keys.listed(ADMIN, None)) == 2


async def test_no_key_of_somebody_who_is_no_admin_is_an_admins(access: Access) -> None:
    await access.new_key("ann")
    with pytest.raises(NotPermitted, match="ann is no admin"):
        await access.keys.create(ADMIN, CreateKey(user="ann", scopes=(KeyScope.ADMIN,)))


async def test_a_key_for_nobody_is_not_made(access: Access) -> None:
    with pytest.raises(NoSuchUser, match="no user carl"):
        await access.keys.create(ADMIN, CreateKey(user="carl"))


async def test_a_key_of_somebody_else_does_not_exist(access: Access) -> None:
    key = await access.new_key("ann")
    for work in (
        access.keys.revoke(user("bob"), key.id),
        access.keys.rotate(user("bob"), key.id, RotateKey()),
        access.keys.revoke(user("bob"), "nul\0"),
    ):
        with pytest.raises(NoSuchKey, match="no key"):
            await work
    assert await access.user_of(key) == "ann"


async def test_a_rotated_key_is_like_the_old_one_which_ends(access: Access) -> None:
    old = await access.keys.create(ADMIN, await _for_ann(access))
    new = await access.keys.rotate(user("ann"), old.view.id, RotateKey())
    assert "was revoked" in await access.refusal_of(old.key)
    assert await access.user_of(new.key) == "ann"
    assert (new.view.name, new.view.scopes) == (old.view.name, old.view.scopes)
    with pytest.raises(KeyHasEnded, match="can't be used any more"):
        await access.keys.rotate(user("ann"), old.view.id, RotateKey())


async def test_an_overlap_keeps_the_old_key_for_a_while(access: Access) -> None:
    old = await access.keys.create(ADMIN, await _for_ann(access))
    await access.keys.rotate(user("ann"), old.view.id, RotateKey(overlap_s=3600.0))
    assert await access.user_of(old.key) == "ann"
    ending = {key.id: key.expires_s for key in await access.keys.listed(ADMIN, "ann")}
    assert ending[old.view.id] is not None


async def test_a_weaker_key_does_not_rotate_a_stronger_one(access: Access) -> None:
    strong = await access.new_key("ann")
    with pytest.raises(NotPermitted, match="may do more than yours"):
        await access.keys.rotate(user("ann", KeyScope.READ), strong.id, RotateKey())
    weak = Key.new().id
    with pytest.raises(NoSuchKey):
        await access.keys.rotate(user("ann", KeyScope.READ), weak, RotateKey())


async def _for_ann(access: Access) -> CreateKey:
    await access.new_key("ann")
    return CreateKey(user="ann", name="laptop", scopes=(KeyScope.READ, KeyScope.SUBMIT))


def _run(owner: str, state: str) -> Run:
    return Run(
        id="run_1",
        owner=owner,
        name="run",
        config=dict(CONFIG),
        state=state,
        n_steps=1,
        created_s=0.0,
    )


async def test_no_key_makes_one_that_lasts_longer(access: Access) -> None:
    forever = str(await access.new_key("ann"))
    by_forever = await access.callers.identify(forever)
    hour = (await access.keys.create(by_forever, CreateKey(lifetime_s=3600))).key
    by_hour = await access.callers.identify(hour)
    for lifetime_s in (None, 7200.0):
        with pytest.raises(NotPermitted, match="has to end by then"):
            await access.keys.create(by_hour, CreateKey(lifetime_s=lifetime_s))
    minute = await access.keys.create(by_hour, CreateKey(lifetime_s=60))
    assert minute.view.expires_s
    with pytest.raises(NotPermitted, match="for longer"):
        await access.keys.rotate(by_hour, by_forever.key_id, RotateKey())
    again = await access.keys.rotate(by_hour, by_hour.key_id, RotateKey())
    assert again.view.expires_s == by_hour.expires_s


async def test_whoever_has_very_many_keys_is_told_of_the_one_they_call_with(
    access: Access, store: Store
) -> None:
    first = await access.callers.identify(str(await access.new_key("ann")))

    def add_many(session: Session) -> None:
        later_s = time.time() + 1
        for n in range(MOST_LISTED):
            row = ApiKey(id=f"many{n}", owner="ann", hash="", scopes=["read"], created_s=later_s)
            session.add(row)

    await store.transact(add_many)
    assert first.key_id not in {key.id for key in await access.keys.listed(first, None)}
    assert (await access.keys.used(first)).id == first.key_id
