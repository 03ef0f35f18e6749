"""The ledger: after the storm, was anything lost, doubled or left behind?

Three records that know nothing of each other are held together: the store (which episodes were
admitted, and what became of each), the stream of trajectories (what ended, and with which tokens),
and what the simulated trainers wrote down (which op they applied, with which tokens).
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sqlalchemy import create_engine
from sqlmodel import Session, col, select
from tests.chaos.trainer_child import mark

from warren_broker.inbox import follow
from warren_broker.port import Broker
from warren_broker.topology import trajectories
from warren_gateway.position import Position
from warren_gateway.store.tables import GroupRow, Model, OutboxRow, Run
from warren_schemas.episode import Completed, EpisodeEnded
from warren_schemas.ids import RunId

FATES = frozenset({"trained", "stale", "failed", "abandoned", "evaluated"})


@dataclass
class AppliedOp:
    kind: str
    digest: str
    marks: tuple[str, ...]


@dataclass
class Ending:
    """One message of the stream about one attempt of an episode."""

    task: int
    member: int
    position: int
    """Its place in the stream."""
    is_completed: bool
    mark: str
    oldest_version: int
    n_turns: int
    n_recoveries: int
    attempt: int


@dataclass
class Books:
    """All that was written down about one run."""

    run: Run
    model: Model
    groups: list[GroupRow]
    ops: dict[int, AppliedOp] = field(default_factory=dict[int, AppliedOp])
    final_chain: str = ""
    endings: dict[str, list[Ending]] = field(
        default_factory=lambda: defaultdict[str, list[Ending]](list)
    )
    """By group."""

    @property
    def n_admitted(self) -> int:
        return sum(group.n_members for group in self.groups)

    @property
    def n_trained(self) -> int:
        return sum(len(op.marks) for op in self.ops.values())

    def first_endings(self) -> list[Ending]:
        """Of each episode the ending that counted."""
        first: dict[tuple[str, int], Ending] = {}
        for group, endings in self.endings.items():
            for ending in endings:
                first.setdefault((group, ending.member), ending)
        return list(first.values())

    def count_endings(self) -> Counter[str]:
        """How many times each thing happened, for the report."""
        endings = [ending for group in self.endings.values() for ending in group]
        return Counter(
            endings=len(endings),
            completed=sum(e.is_completed for e in endings),
            replays=sum(e.n_recoveries for e in endings),
            restarts=sum(e.attempt > 1 for e in endings),
        )


def turns_sampled(ledgers: Path) -> int:
    """By all samplers together; each writes one byte for a turn."""
    return sum(path.stat().st_size for path in ledgers.glob("*.turns"))


async def read_books(store_url: str, broker: Broker, run: str, ledgers: Path) -> Books:
    """Everything about a run that has ended. Raises `AssertionError` where records disagree."""
    books = _read_store(store_url, run)
    await _read_stream(books, broker)
    _read_ledgers(books, ledgers)
    return books


def check_books(books: Books, *, max_staleness: int) -> None:
    """Nothing lost, nothing doubled."""
    _check_groups(books)
    _check_training(books, max_staleness)


def check_store(store_url: str) -> None:
    """No lease and no unsent message is left."""
    engine = create_engine(store_url)
    with Session(engine) as session:
        unsent = [row.address for row in session.exec(select(OutboxRow))]
        held = session.exec(select(Model.id).where(col(Model.is_closed).is_(False))).all()
    engine.dispose()
    assert not unsent, f"left in the outbox: {unsent[:10]}"
    assert not held, f"models without an end: {held}"


def _read_store(store_url: str, run: str) -> Books:
    engine = create_engine(store_url)
    with Session(engine, expire_on_commit=False) as session:
        row = session.get(Run, run)
        assert row is not None
        model = session.exec(select(Model).where(col(Model.run_id) == run)).one()
        groups = list(session.exec(select(GroupRow).where(col(GroupRow.run_id) == run)))
    engine.dispose()
    return Books(row, model, groups)


async def _read_stream(books: Books, broker: Broker) -> None:
    """Up to the end of the stream, as far as the coordinator has read and everything before it."""
    stream = trajectories(books.run.id)
    last = books.run.stream_offset - 1
    if last < 0:
        return
    async with follow(broker, stream, EpisodeEnded, start="first") as inbox:
        async for claims in inbox:
            for claim in claims:
                claim.done()
            for place, claim in enumerate(claims):
                _note_ending(books, claim.item, Position(claim.offset or 0, place))
            if (claims[-1].offset or 0) >= last:
                return


def _note_ending(books: Books, item: EpisodeEnded, position: Position) -> None:
    assert item.envelope.run == RunId(books.run.id)
    tokens = item.transcript.tokens
    versions = tokens.versions_T[tokens.mask_T == 1]
    books.endings[item.spec.group].append(
        Ending(
            task=item.spec.task.index,
            member=item.spec.member,
            position=int(position),
            is_completed=isinstance(item.outcome, Completed),
            mark=mark(tokens.ids_T, tokens.mask_T),
            oldest_version=int(versions.min()) if versions.size else 0,
            n_turns=len(item.transcript.turns),
            n_recoveries=3 - item.spec.n_recoveries_left,
            attempt=item.envelope.attempt,
        )
    )


def _read_ledgers(books: Books, ledgers: Path) -> None:
    """Ops by number: applied again after a lease passed on, an op must be the same op."""
    chains: dict[int, set[str]] = defaultdict(set)
    for _, line in lines(ledgers):
        if line["model"] != books.model.id:
            continue
        op = AppliedOp(line["kind"], line["digest"], tuple(line["marks"]))
        number = int(line["number"])
        known = books.ops.setdefault(number, op)
        assert known == op, f"op {number} was two different ops"
        chains[number].add(line["chain"])
    for number, found in chains.items():
        assert len(found) == 1, f"after op {number} there were {len(found)} different models"
    if chains:
        books.final_chain = next(iter(chains[max(chains)]))


def lines(ledgers: Path) -> Iterable[tuple[Path, dict[str, str]]]:
    """What each trainer's child wrote down, and where."""
    for path in sorted(ledgers.glob("*.jsonl")):
        for text in path.read_text().splitlines():
            try:
                yield path, json.loads(text)
            except json.JSONDecodeError:  # killed in the middle of a line; it was never answered
                continue


def _check_groups(books: Books) -> None:
    """Every admitted episode ended exactly once."""
    numbers = sorted(group.number for group in books.groups)
    assert numbers == list(range(len(numbers))), "groups are missing or doubled"
    for group in books.groups:
        assert not group.is_open, f"{group.id} never ended"
        assert group.outcomes is not None and len(group.outcomes) == group.n_members
        assert {outcome["fate"] for outcome in group.outcomes} <= FATES


def _check_training(books: Books, max_staleness: int) -> None:
    numbers = sorted(books.ops)
    assert numbers == list(range(1, len(numbers) + 1)), "ops are missing"
    assert len(numbers) == books.model.last_op == books.model.done_op
    chain = ""
    for number in numbers:
        joined = (chain + books.ops[number].digest).encode()
        chain = hashlib.blake2b(joined, digest_size=12).hexdigest()
    assert chain == books.final_chain, "the model is not what its log says"

    trained = Counter(one for op in books.ops.values() for one in op.marks)
    doubled = [one for one, n in trained.items() if n > 1]
    assert not doubled, f"trained more than once: {doubled}"
    expected = {one for group in books.groups for one in _trained_marks(books, group, set(trained))}
    assert expected == set(trained), "what was trained is not what the store says"
    _check_staleness(books, max_staleness)


def _trained_marks(books: Books, group: GroupRow, trained: set[str]) -> Iterable[str]:
    """The sequence of each member that was trained: one of its endings, and only one."""
    outcomes = group.outcomes or []
    rewards = [o["reward"] for o in outcomes if o["fate"] == "trained" and "reward" in o]
    if not rewards or np.std(rewards) == 0.0:  # a group without a difference teaches nothing
        return
    for member, outcome in enumerate(outcomes):
        if "reward" not in outcome:
            continue
        endings = books.endings[group.id]
        own = {e.mark for e in endings if e.member == member and e.is_completed}
        used = own & trained
        assert len(used) == 1, f"{group.id}.{member}: {len(used)} of its endings were trained"
        [counted] = {e.mark for e in endings if e.position == outcome["position"]}
        assert used == {counted}, f"{group.id}.{member}: another ending is said to be trained"
        yield counted


def _check_staleness(books: Books, max_staleness: int) -> None:
    versions = {e.mark: e.oldest_version for group in books.endings.values() for e in group}
    version = 0
    for number in sorted(books.ops):
        op = books.ops[number]
        for one in op.marks:
            lag = version - versions[one]
            assert lag <= max_staleness, f"op {number} was {lag} steps stale"
        version += op.kind == "optim_step"
