"""The order of a model's ops, whatever order their messages come in.

Invariants:
- An op is handed out once, by number, without a gap; early ones wait, a gap simply waits.
- An op is its id: another one under a number that is taken shows that the log has gone another way (a
  store that lost its newest changes). It is told apart and never taken for the first one.
- An op that comes again while it is under way is settled with the first; one that was answered is
  answered again with the same answer, as long as that is kept. Of one whose answer is gone is told how far the
  model has come since: whoever asks for it has either the answer, or a store that lost it.
- At most `MAX_EARLY` ops wait for a gap to close; those furthest ahead are handed back, so that the
  one that is missing always fits.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterable

from warren_broker.inbox import Claim
from warren_schemas.envelope import Envelope
from warren_schemas.ids import MessageId, ModelId
from warren_schemas.training import Op, OpDone, OpFailed, OpResult

KEPT_ANSWERS = 512
MAX_EARLY = 48
_HAND_BACK_S = 0.5

log = logging.getLogger(__name__)

Claims = list[Claim[Op]]


class OpSequence:
    def __init__(self, model: ModelId, epoch: int, next_op: int) -> None:
        self._model = model
        self._epoch = epoch
        self._first = self._next = next_op
        self._early: dict[int, Claims] = {}
        self._under_way: dict[int, Claims] = {}
        self._answers: OrderedDict[int, OpResult] = OrderedDict()
        self._version = 0
        """Of the model, after the newest op that was answered."""

    @property
    def next_op(self) -> int:
        """The number whose turn it is."""
        return self._next

    @property
    def has_gap(self) -> bool:
        """Ops are here whose turn can't come before that of one that isn't."""
        return bool(self._early)

    def take(self, claims: Iterable[Claim[Op]]) -> list[tuple[Claim[Op], OpResult]]:
        """Note ops that came in; those among them that need an answer now, with the answer: they were
        answered before, or another op was applied in their place, or it is not known any more."""
        again: list[tuple[Claim[Op], OpResult]] = []
        for claim in claims:
            if (claim.item.model, claim.item.epoch) != (self._model, self._epoch):
                claim.dead_letter(f"not of model {self._model}, epoch {self._epoch}")
            elif self._is_another(claim.item):
                reason = "another op was applied under this number"
                again.append((claim, self._ahead(claim.item, reason)))
            elif claim.item.number >= self._next:
                self._early.setdefault(claim.item.number, []).append(claim)
            elif claim.item.number in self._under_way:
                self._under_way[claim.item.number].append(claim)
            elif answer := self._answers.get(claim.item.number):
                again.append((claim, answer))
            elif claim.item.number >= self._first:
                again.append((claim, self._ahead(claim.item, "its answer is not kept any more")))
            else:
                log.info("op %d of %s is part of its checkpoint", claim.item.number, self._model)
                claim.done()
        return again

    def _is_another(self, op: Op) -> bool:
        """Whether a different op has its number."""
        if (claims := self._early.get(op.number) or self._under_way.get(op.number)) is not None:
            return claims[0].item.envelope.id != op.envelope.id
        answer = self._answers.get(op.number)
        return answer is not None and answer.op != op.envelope.id

    def _ahead(self, op: Op, reason: str) -> OpResult:
        log.warning("op %d of %s has come late: %s", op.number, self._model, reason)
        return OpResult(
            envelope=Envelope(run=op.envelope.run),
            model=self._model,
            epoch=self._epoch,
            number=op.number,
            op=op.envelope.id,
            outcome=OpFailed(reason=reason, ahead_version=self._version),
        )

    def ready(self) -> list[Op]:
        """The ops whose turn it is; from now on they are under way."""
        ops: list[Op] = []
        while claims := self._early.pop(self._next, None):
            self._under_way[self._next] = claims
            ops.append(claims[0].item)
            self._next += 1
        self._hand_back_excess()
        return ops

    def answered(self, answer: OpResult) -> Claims:
        """Keep the answer; the claims to settle once it is confirmed."""
        self._answers[answer.number] = answer
        if isinstance(answer.outcome, OpDone):
            self._version = answer.outcome.version
        if len(self._answers) > KEPT_ANSWERS:
            self._answers.popitem(last=False)
        return self._under_way.pop(answer.number)

    def id_of(self, number: int) -> MessageId:
        """Of an op that is under way."""
        return self._under_way[number][0].item.envelope.id

    def _hand_back_excess(self) -> None:
        while sum(map(len, self._early.values())) > MAX_EARLY:
            for claim in self._early.pop(max(self._early)):
                claim.hand_back(delay_s=_HAND_BACK_S)
