"""The episodes that this worker knows, and what each item does to them.

An item names an episode, an attempt and a turn (0 for a start), and may come twice, late, or from a
worker that died. The rules, in this order:

    its run has ended            dropped: nobody needs it
    older attempt, older turn    dropped: a later one exists, so nobody waits for it
    the turn we took last        answered with the same successor, now or when it is there
    any turn after the end       dropped: the end is out
    past its deadline            the episode fails
    the turn after ours          `step` on the live environment
    all others                   rebuilt by replay (or started); this worker is the new home

Invariants: of one attempt, the live environment takes each turn once, and the successor is
remembered until the next turn is taken. What it went through is the history that the item tells,
else it is rebuilt. A claim is settled with the confirm of its successor, or when it is dropped.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pydantic import ValidationError

from warren_broker.inbox import Claim
from warren_broker.successors import Destination
from warren_broker.worker.unwanted import Unwanted
from warren_env_worker.finished_episodes import FinishedEpisodes
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer, Observed, Refused
from warren_env_worker.host.request import Request
from warren_env_worker.interaction import Interaction, episode_of, misfit, run_of, turn_of
from warren_env_worker.rubrics import Rubrics
from warren_env_worker.run_notices import RunNotices
from warren_env_worker.successor import Origin, Successor, Taken, end, follow
from warren_schemas.control import EpisodeCancelled, RunEnded
from warren_schemas.envelope import Envelope, Item
from warren_schemas.episode import Failed, FailureKind, FinishReason, Step
from warren_schemas.ids import EpisodeId, RunId, WorkerId

Publish = Callable[[Destination, Item, Sequence[Claim[Taken]]], None]

log = logging.getLogger(__name__)


class Interactions:
    def __init__(
        self,
        worker: WorkerId,
        hosts: Mapping[str, Host],
        publish: Publish,
        notices: RunNotices,
        rubrics: Rubrics,
        *,
        capacity: int,
    ) -> None:
        """`publish` settles the claims when the successor is confirmed.

        `capacity` is for each environment: a slow one takes nothing from the others.
        """
        self._free_capacity = {environment: asyncio.Event() for environment in hosts}
        self.n_done = 0
        self._worker = worker
        self._hosts = hosts
        self._publish = publish
        self._notices = notices
        self._rubrics = rubrics
        self._capacity = capacity
        self._takes_new = True
        self._live: dict[EpisodeId, Interaction] = {}
        self._finished = FinishedEpisodes()
        self._unwanted = Unwanted()
        self._n_live = Counter[str]()
        for environment in hosts:
            self._note_capacity(environment)

    def free_capacity(self, environment: str) -> asyncio.Event:
        """Set while another episode of this environment may be live."""
        return self._free_capacity[environment]

    def take_new(self, takes_new: bool) -> None:
        """Whether another episode may be live, where there is capacity for it."""
        self._takes_new = takes_new
        for environment in self._hosts:
            self._note_capacity(environment)

    @property
    def n_live(self) -> int:
        return len(self._live)

    def needs_capacity(self, item: Taken) -> bool:
        """Whether to take it opens one live environment more."""
        if misfit(item) is not None or item.envelope in self._unwanted or _is_late(item):
            return False
        episode = episode_of(item)
        finished = self._finished.get(episode)
        is_known = finished is not None and finished.attempt >= item.envelope.attempt
        return episode not in self._live and not is_known

    def take(self, claim: Claim[Taken]) -> None:
        """Settle the claim now, or when what follows from it is confirmed."""
        item = claim.item
        if (wrong := misfit(item)) is not None:
            claim.dead_letter(wrong)
        elif item.envelope in self._unwanted:
            claim.done()
        else:
            self._take(claim, self._known(episode_of(item)))

    def _take(self, claim: Claim[Taken], known: Interaction | None) -> None:
        item = claim.item
        attempt, turn = item.envelope.attempt, turn_of(item)
        if known is None or known.attempt < attempt:
            self._open(claim)
        elif known.attempt > attempt or turn < known.turn:
            claim.done()
        elif turn == known.turn:
            self._repeat(known, claim)
        elif known.is_over:
            claim.done()
        elif isinstance(item, Step) and known.leads_to(item) and not _is_late(item):
            known.advance(item)
            known.claims.append(claim)
            self._ask(known)
        else:
            self._open(claim)

    def runs_ended(self, endings: Sequence[RunEnded]) -> None:
        for ending in endings:
            self.end_run(ending.ended_run)

    def episodes_cancelled(self, cancellations: Sequence[EpisodeCancelled]) -> None:
        for cancellation in cancellations:
            self.cancel(cancellation.envelope)

    def end_run(self, run: RunId) -> None:
        """Drop all that we hold of this run, and what comes of it later."""
        self._unwanted.end_run(run)
        self._finished.forget_run(run)
        for interaction in list(self._live.values()):
            if run_of(interaction.taken) == run:
                self._drop(interaction)

    def cancel(self, envelope: Envelope) -> None:
        """Drop this attempt at an episode, or an older one, and what comes of it later."""
        self._unwanted.cancel(envelope)
        interaction = self._live.get(envelope.episode) if envelope.episode else None
        if interaction is not None and interaction.taken.envelope in self._unwanted:
            self._drop(interaction)

    def reap(self, now_s: float) -> None:
        """Drop episodes past their deadline: whoever wants them starts them again."""
        for interaction in list(self._live.values()):
            if interaction.expires_s < now_s:
                log.debug("%s expired at turn %d", episode_of(interaction.taken), interaction.turn)
                self._drop(interaction)

    def _known(self, episode: EpisodeId) -> Interaction | None:
        return self._live.get(episode) or self._finished.get(episode)

    def _repeat(self, known: Interaction, claim: Claim[Taken]) -> None:
        if known.successor is None:
            known.claims.append(claim)
        else:
            self._publish_successor(known.successor, [claim])

    def _open(self, claim: Claim[Taken]) -> None:
        """A live environment for this item, in place of one that we may hold."""
        episode = episode_of(claim.item)
        if (known := self._live.get(episode)) is not None:
            self._drop(known)
        self._finished.forget_episode(episode)
        refusal = self._refusal(claim.item)
        if refusal is None:
            self._begin(claim)
        else:
            successor = end(claim.item, refusal, Origin(self._worker, time.time()))
            self._publish_successor(successor, [claim])

    def _begin(self, claim: Claim[Taken]) -> None:
        item = claim.item
        if isinstance(item, Step):
            log.debug("%s moves in at turn %d", episode_of(item), item.turn)
            item = _moved(item)
        self._notices.begins(item)
        slot = self._hosts[item.spec.environment].open()
        interaction = self._live[episode_of(item)] = Interaction.begin(item, slot)
        interaction.claims.append(claim)
        self._count_live(item.spec.environment, 1)
        self._ask(interaction)

    def _refusal(self, item: Taken) -> Failed | None:
        """Why this worker won't give the episode a live environment."""
        if _is_late(item):
            return Failed(kind=FailureKind.DEADLINE, reason="its deadline passed while it waited")
        if item.spec.environment not in self._hosts:
            return Failed(
                kind=FailureKind.UNKNOWN_ENVIRONMENT,
                reason=f"this worker hosts {', '.join(self._hosts)}, not {item.spec.environment}",
                retryable=False,
            )
        if isinstance(item, Step) and item.spec.n_recoveries_left == 0:
            return Failed(
                kind=FailureKind.LOST, reason="its env worker was lost, and no recovery is left"
            )
        return None

    def _ask(self, interaction: Interaction) -> None:
        taken = interaction.taken
        transcript = taken.transcript if isinstance(taken, Step) else None
        answer = partial(self._answered, interaction)
        is_cut = isinstance(taken, Step) and taken.finish is FinishReason.LENGTH
        is_scored = isinstance(taken, Step) and taken.recorded_stop is not None
        request = Request(interaction.slot, taken.spec, transcript, answer, is_cut, is_scored)
        interaction.asked_s = time.monotonic()
        self._hosts[taken.spec.environment].submit_request(request)

    def _answered(self, interaction: Interaction, answer: Answer) -> None:
        taken = interaction.taken
        self._note_capacity(taken.spec.environment)  # the host knows its limit by now
        if self._live.get(episode_of(taken)) is not interaction:
            return  # dropped while the environment was at work
        interaction.answered_s = time.monotonic()
        by = Origin(
            self._worker,
            interaction.started_s,
            self._hosts[taken.spec.environment].description,
            waited_s=interaction.waited_s,
            call_s=interaction.answered_s - interaction.asked_s,
            is_rebuilt=interaction.is_rebuilt,
        )
        successor = _followed(taken, answer, by)
        if successor.unrewarded is not None and isinstance(answer, Observed):
            self._rubrics.apply(successor, answer, partial(self._go_on, interaction))
        else:
            self._go_on(interaction, successor)

    def _go_on(self, interaction: Interaction, successor: Successor) -> None:
        if self._live.get(episode_of(interaction.taken)) is not interaction:
            return  # dropped while it was rewarded
        claims, interaction.claims = interaction.claims, []
        interaction.successor = successor
        if successor.is_end:
            self._release(interaction)
            self._finished.add(interaction)
            self.n_done += 1
        self._publish_successor(successor, claims)

    def _publish_successor(self, successor: Successor, claims: Sequence[Claim[Taken]]) -> None:
        self._notices.follows(successor.item)
        self._publish(successor.address, successor.item, claims)

    def _drop(self, interaction: Interaction) -> None:
        self._release(interaction)
        for claim in interaction.claims:
            claim.done()

    def _release(self, interaction: Interaction) -> None:
        environment = interaction.taken.spec.environment
        del self._live[episode_of(interaction.taken)]
        self._hosts[environment].close(interaction.slot)
        self._count_live(environment, -1)

    def _count_live(self, environment: str, more: int) -> None:
        self._n_live[environment] += more
        self._note_capacity(environment)

    def _note_capacity(self, environment: str) -> None:
        has_capacity = self._n_live[environment] < self._capacity
        if self._takes_new and has_capacity and self._hosts[environment].has_capacity:
            self._free_capacity[environment].set()
        else:
            self._free_capacity[environment].clear()


def _followed(taken: Taken, answer: Answer, by: Origin) -> Successor:
    """What follows. The child has checked what it sends, but user code lives in it and may have sent
    this: what nobody could read fails its own episode."""
    try:
        return follow(taken, answer, by)
    except ValueError as error:
        what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        reason = f"its environment sent what can't be read: {what}"
        return follow(taken, Refused(answer.id, FailureKind.ENVIRONMENT_ERROR, reason), by)


def _is_late(item: Taken) -> bool:
    return item.envelope.deadline_s is not None and item.envelope.deadline_s < time.time()


def _moved(step: Step) -> Step:
    """The step with one recovery less."""
    spec = step.spec.model_copy(update={"n_recoveries_left": step.spec.n_recoveries_left - 1})
    return step.model_copy(update={"spec": spec})
