"""Nobody's dead letters hide, or push out, those of others."""

from tests.support.brokers import letters_of
from tests.support.factories import make_envelope, make_step
from tests.support.gateway import Gateway

from warren_broker.topology import WorkQueue
from warren_gateway.budgets.dead_letters import MIB, NOBODY, DeadLetterQuota, Letter
from warren_gateway.dead_letters import DeadLetters
from warren_schemas.codec.wire import encode
from warren_schemas.ids import RunId

QUEUE = WorkQueue("interact.guess")


def letters(owner: str, *sizes_bytes: int) -> list[Letter]:
    return [Letter(f"{owner}-{i}", owner, size) for i, size in enumerate(sizes_bytes)]


def test_the_oldest_of_the_same_owner_make_place() -> None:
    quota = DeadLetterQuota(per_owner=2, mib_per_owner=100)
    ann, bob, nobody = letters("ann", 1, 1, 1, 1), letters("bob", 1), letters(NOBODY, 1, 1, 1)
    excess = quota.take_stock([*ann[:2], *nobody, *bob, *ann[2:]])
    assert [letter.id for letter in excess] == ["ann-0", "ann-1", "-0"]
    of_ann, _ = quota.views("ann")
    assert (of_ann.used, of_ann.limit, of_ann.total_used, of_ann.n_refused) == (2, 2, 5, 2)


def test_their_bytes_count_too_and_the_newest_is_always_kept() -> None:
    quota = DeadLetterQuota(per_owner=100, mib_per_owner=10)
    excess = quota.take_stock(letters("ann", 1, 6 * MIB, 2 * MIB, 3 * MIB))
    assert [letter.id for letter in excess] == ["ann-0", "ann-1"]
    assert quota.views("ann")[1].used == 5
    assert quota.take_stock(letters("ann", 11 * MIB)) == []


async def test_they_are_dropped_at_the_broker_and_others_stay(gateway: Gateway) -> None:
    async def give_up(name: str, body: bytes) -> None:
        await gateway.broker.dead_letter(body, origin=QUEUE, reason="bad", message_id=name)

    await gateway.broker.declare(QUEUE)
    run = await gateway.submit()
    await give_up(
        "another-s", encode([make_step(envelope=make_envelope(run=RunId("run_of_none")))])
    )
    for i in range(4):
        await give_up(f"ann-{i}", encode([make_step(envelope=make_envelope(run=run))]))
    quota = DeadLetterQuota(per_owner=2, mib_per_owner=1)
    dead_letters = DeadLetters(gateway.broker, gateway.store, quota)
    assert await dead_letters.enforce() == 2
    left = await letters_of(gateway.broker, QUEUE, 3)
    assert [letter.id for letter in left] == ["another-s", "ann-2", "ann-3"]
    assert await dead_letters.enforce() == 0
    assert quota.views("ann")[0].n_refused == 2
