"""Answers of samplers that a client comes for later: asked at once, kept until they are fetched.

A sample is in the store before its question is asked, and so is what came of it: a client gets it from any gateway,
also when that which has asked the samplers is gone; the one that is asked then asks them again.

Invariants
- One question for one name, however often it is asked; to other owners there is no future of this name.
- A future that is cancelled, or whose gateway stops, tells the samplers to stop; where another gateway has asked them,
  it does so within `HELD_S / 3`.
- Who waits for all samples of a sampler waits for none that nobody has asked for: within `HELD_S / 3` of its being
  free, the gateway that is polled takes it.
- A sample whose client is gone is lost, and the samplers are told to stop; a client that comes back asks once more.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from warren_gateway.budgets.budget import OverBudget
from warren_gateway.inference.sampler_requests import AnswersLost
from warren_gateway.store.store import StoreUnavailable
from warren_gateway.tinker.samples.answering import Answering, Ask, Awaited, CantSample, Reading
from warren_gateway.tinker.samples.clients import SampleClients
from warren_gateway.tinker.samples.completions import (
    Clone,
    Completed,
    CompletionRows,
    clone_of,
)
from warren_gateway.tinker.samples.polls import SamplePolls
from warren_gateway.tinker.samples.rows import (
    HELD_S,
    Elsewhere,
    FailedSample,
    Sampled,
    SampleRows,
    Taken,
)
from warren_gateway.trainable.waiters import Waiters

log = logging.getLogger(__name__)

MOST_TAKEN = 500
"""Samples at a time that nobody has: those that we have must be held meanwhile."""


class NoSuchFuture(LookupError):
    """There is none of this name, or its answer was lost: its client may ask once more."""


class SampleFutures:
    """`run` must go on meanwhile."""

    def __init__(
        self,
        answering: Answering,
        rows: SampleRows,
        completions: CompletionRows,
        clients: SampleClients,
        waiters: Waiters,
        asked_again: Callable[[str, bytes], Awaitable[Ask]],
    ) -> None:
        """`asked_again` reads what an owner has asked, from the body of the request. Raises `CantSample`."""
        self._answering = answering
        self._rows = rows
        self._completions = completions
        self._clients = clients
        self._polls = SamplePolls(completions, waiters)
        self._waiters = waiters
        self._asked_again = asked_again
        self._arriving = set[str]()
        """Of samples that are in the store, perhaps, and asked in a moment."""

    async def run(self) -> None:
        """Answer futures until cancelled; those that are open are left to other gateways, or to the next start."""
        try:
            async with self._answering.serving():
                while True:
                    await asyncio.sleep(HELD_S / 3)
                    await self.hold()
        finally:
            try:
                await self._rows.release()
            except StoreUnavailable as error:
                log.info("samples are left to others in %g s: %s", HELD_S, error)

    async def hold(self) -> None:
        """Say that the open ones are ours. Those that are no longer ours were cancelled at another gateway, or taken over by it.

        What nobody has, and a client waits for here, is taken; what nobody waits for ends.
        """
        open_before = self._answering.open
        try:
            held = await self._rows.hold()
            for name, one in open_before:
                if name not in held and one.outcome is None:
                    one.stop()
            await self._polls.tidy()
            await self._take_unheld(self._polls.samplers)
            await self._end_abandoned()
        except StoreUnavailable as error:
            log.warning("samples may be asked twice: %s", error)

    async def _end_abandoned(self) -> None:
        """Raises `StoreUnavailable`."""
        await self._clients.note()
        for name in await self._clients.abandoned():
            one = self._answering.get(name)
            if one is not None and one.outcome is not None:
                continue
            log.info("the sample %s ends: its client is gone", name)
            if one is not None:
                one.stop()
            await self._rows.lose(name)
            self._polls.wake(name)

    async def ask(self, owner: str, name: str, body: bytes, reading: Reading) -> None:
        """Once it returns, the future is in the store. `reading` makes a question of the body, where it is a new one.

        Raises `OverBudget`, `StoreUnavailable`, and `AnswersLost` when the gateway stops.
        """
        self._clients.heard(clone_of(name)[0])
        if self._answering.get(name) is not None:
            return
        try:
            ask = await reading()
            self._answering.require_possible(ask, body)
        except CantSample as error:
            await self._rows.add(owner, name, body, FailedSample(f"{error}", is_users=True))
            self._polls.wake(name)
            return
        self._answering.require_place(owner, name, ask, body)
        self._arriving.add(name)
        try:
            if await self._rows.add(owner, name, body):
                await self._begin(owner, name, ask, body)
        finally:
            self._arriving.discard(name)

    async def _begin(self, owner: str, name: str, ask: Ask, body: bytes) -> None:
        """Raises `OverBudget`, `AnswersLost`: the sample is free for other gateways then."""
        try:
            self._answering.begin(owner, name, ask, body)
        except (OverBudget, AnswersLost):
            await self._rows.release(name)
            raise

    async def outcome(self, owner: str, name: str, *, within_s: float) -> Sampled | None:
        """None when it isn't there by then. Raises `NoSuchFuture`, `OverBudget`, `StoreUnavailable`, `AnswersLost`."""
        ends_s = asyncio.get_running_loop().time() + within_s
        with self._waiters.watch([name]) as event:
            while True:
                event.clear()
                one = self._answering.get(name)
                if one is not None and one.owner == owner:
                    self._clients.heard(clone_of(name)[0])
                    return await _outcome_of(name, one, ends_s)
                outcome = self._answering.unfetched.fetch(owner, name)
                if outcome is not None:
                    return outcome
                found = await self._rows.find(owner, name)
                if found is None:
                    raise NoSuchFuture(name)
                if isinstance(found, Taken):
                    await self._take_over(owner, name, found)
                elif isinstance(found, Elsewhere):
                    self._clients.heard(clone_of(name)[0])
                    if not await _is_set(event, ends_s, found.for_s):
                        return None
                else:
                    return found

    def n_ahead(self, name: str, base_model: str) -> int:
        """Answers that are waited for here and come before this sample's."""
        return self._answering.n_ahead(name, base_model)

    async def completed(self, clone: Clone, after: int, *, within_s: float) -> Completed:
        """Which samples are done that had not been after completion number `after`: none where none is by then.

        Raises `StoreUnavailable`.
        """
        self._clients.heard(clone[0])
        if self._polls.begin(clone, after, within_s):
            await self._take_unheld([clone[0]])
        return await self._polls.completed(clone, after, within_s)

    async def _take_unheld(self, samplers: Collection[str]) -> None:
        """Up to `MOST_TAKEN`; the rest, and what can't be asked now, is left to the next time. Raises `StoreUnavailable`."""
        unheld = await self._completions.unheld(samplers)
        free = [(owner, name) for owner, name in unheld if not self._has(name)]
        for owner, name in free[:MOST_TAKEN]:
            found = await self._rows.find(owner, name)
            if isinstance(found, Taken):
                try:
                    await self._take_over(owner, name, found)
                except (OverBudget, AnswersLost) as error:
                    log.info("the sample %s waits: %s", name, error)

    def _has(self, name: str) -> bool:
        return self._answering.get(name) is not None or name in self._arriving

    async def _take_over(self, owner: str, name: str, taken: Taken) -> None:
        """Whoever had it is gone. Raises `OverBudget`, `AnswersLost`, `StoreUnavailable`."""
        if self._answering.get(name) is not None:
            return
        log.info("the sample %s is asked again", name)
        try:
            ask = await self._asked_again(owner, taken.asked)
            self._answering.require_possible(ask, taken.asked)
        except CantSample as error:
            await self._rows.finish(name, FailedSample(f"{error}", is_users=True))
            self._polls.wake(name)
            return
        if self._answering.get(name) is None:
            await self._begin(owner, name, ask, taken.asked)

    async def cancel(self, owner: str, name: str) -> None:
        """Its client wants it no more, whichever gateway has it; what is done or unknown is no error.

        Raises `StoreUnavailable`.
        """
        one = self._answering.get(name)
        if one is not None and one.owner == owner:
            one.stop()
        await self._rows.cancel(owner, name)


async def _outcome_of(name: str, one: Awaited, ends_s: float) -> Sampled | None:
    """None when it isn't there by then. Raises `NoSuchFuture`."""
    try:
        async with asyncio.timeout_at(ends_s):
            await one.is_done.wait()
    except TimeoutError:
        return None
    if one.outcome is None:
        raise NoSuchFuture(name)
    one.is_told = True
    return one.outcome


async def _is_set(event: asyncio.Event, ends_s: float, for_s: float) -> bool:
    """False when the time is over first; true also where whoever has it may have left by then."""
    loop = asyncio.get_running_loop()
    look_s = loop.time() + for_s
    try:
        async with asyncio.timeout_at(min(ends_s, look_s)):
            await event.wait()
    except TimeoutError:
        return look_s < ends_s
    return True
