"""A change: everything that one decision does, applied in one transaction.

Invariant: applying a change is all or nothing, messages included (they go to the outbox).
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, delete, insert, update
from sqlmodel import Session, col

from warren_broker.topology import Stream, Topic, WorkQueue
from warren_gateway.coordinator.state.client_change import ClientChange
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.store.clock import store_time_s
from warren_gateway.store.outbox import post, post_all
from warren_gateway.store.statements import table
from warren_gateway.store.tables import (
    Checkpoint,
    EvaluationRow,
    GroupRow,
    HistoryRow,
    JobRow,
    MetricsRow,
    Model,
    OpRow,
)
from warren_gateway.usage.counting import Used
from warren_schemas.codec.wire import MAX_ITEMS, encode
from warren_schemas.envelope import Item
from warren_schemas.http import MetricsView
from warren_schemas.ids import GroupId

_MODELS, _OPS, _GROUPS = table(Model), table(OpRow), table(GroupRow)
_CHANGE_MODEL = update(_MODELS).where(_MODELS.c.id == bindparam("its_id"))
_ADD_GROUPS = insert(_GROUPS)
_CHANGE_GROUP = update(_GROUPS).where(_GROUPS.c.id == bindparam("its_id"))
_ADD_OPS = insert(_OPS)
_ADD_REPORTS = insert(table(MetricsRow))
_CHANGE_OP = update(_OPS).where(
    _OPS.c.model_id == bindparam("its_model"), _OPS.c.number == bindparam("its_number")
)


@dataclass(slots=True)
class Change:
    revision: int = 0
    """Its number among the run's changes."""
    follows_from_limits: bool = False
    """It takes a step of training, or ends it: with other limits it might not."""
    run: dict[str, Any] = field(default_factory=dict[str, Any])
    """Columns of the run's row that change."""
    model: dict[str, Any] = field(default_factory=dict[str, Any])
    """Columns of the model's row that change."""
    job: dict[str, Any] = field(default_factory=dict[str, Any])
    """Columns of the job's row that change."""
    is_job_over: bool = False
    """Its row says when, by the store's clock."""
    admitted: list[Group] = field(default_factory=list[Group])
    restarted: dict[str, Group] = field(default_factory=dict[str, Group])
    """Groups whose attempts or deadline changed."""
    closed: list[tuple[Group, list[dict[str, Any]]]] = field(
        default_factory=list[tuple[Group, list[dict[str, Any]]]]
    )
    """Groups that need nothing more, and what became of each member."""
    replayed: list[tuple[Group, list[dict[str, Any]]]] = field(
        default_factory=list[tuple[Group, list[dict[str, Any]]]]
    )
    """The same of groups that another run recorded."""
    evaluations_begun: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Rows of evaluations."""
    evaluations_changed: dict[int, dict[str, Any]] = field(
        default_factory=lambda: defaultdict[int, dict[str, Any]](dict)
    )
    """By number, columns of these rows that change."""
    ops: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Rows of ops appended to the log."""
    answers: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    """Outcomes of ops by number."""
    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Rows of states that the run entered."""
    used: Used = field(default_factory=Used)
    """What is counted as used by the run's owner."""
    reports: list[MetricsView] = field(default_factory=list[MetricsView])
    """Metrics of steps and evaluations."""
    saved: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Rows of checkpoints that were written."""
    deleted: set[str] = field(default_factory=set[str])
    """Names of checkpoints that were deleted."""
    client: ClientChange = field(default_factory=ClientChange)
    """What becomes of a client's requests."""
    prune_ops_to: int = 0
    """Ops up to this number lie under a checkpoint and are deleted."""
    posts: dict[WorkQueue | Stream | Topic, list[Item]] = field(
        default_factory=lambda: defaultdict[WorkQueue | Stream | Topic, list[Item]](list)
    )
    message_sizes: dict[WorkQueue | Stream | Topic, int] = field(
        default_factory=dict[WorkQueue | Stream | Topic, int]
    )
    """Most items in one message, for addresses that should get small ones."""

    unawaited: list[tuple[WorkQueue | Stream | Topic, Item]] = field(
        default_factory=list[tuple[WorkQueue | Stream | Topic, Item]]
    )
    """Messages that leave with the next ones: they are worth no transaction of their own."""

    def send(self, address: WorkQueue | Stream | Topic, *items: Item) -> None:
        if items:
            self.posts[address].extend(items)

    def end_job(self) -> None:
        self.job["state"], self.is_job_over = "over", True

    @property
    def is_empty(self) -> bool:
        return not (
            self.run or self.model or self.job or self.admitted or self.restarted or self.closed
            or self.replayed or self.ops or self.answers or self.history or self.reports or self.saved
            or self.evaluations_begun or self.evaluations_changed
            or self.deleted or self.prune_ops_to or self.posts or self.unawaited or self.used
            or not self.client.is_empty
        )  # fmt: skip

    def apply(self, session: Session, run_id: str, model_id: str) -> None:
        """In a session that has loaded none of these rows. The run's own changes with the number of the change, before
        all others: see `run_leases.fence`."""
        if self.model:
            session.connection().execute(_CHANGE_MODEL, {**self.model, "its_id": model_id})
        if self.job:
            over = {"over_s": store_time_s(session)} if self.is_job_over else {}
            job = (
                update(JobRow)
                .where(col(JobRow.run_id) == run_id)
                .execution_options(synchronize_session=False)
            )
            session.exec(job.values(**self.job, **over))
        self._apply_groups(session, run_id)
        self._apply_evaluations(session, run_id)
        self._apply_ops(session, model_id)
        self._apply_checkpoints(session, model_id)
        self.client.apply(session, model_id)
        if self.history:
            session.exec(insert(HistoryRow), params=self.history)
        if self.reports:
            reports = [_report(run_id, report) for report in self.reports]
            session.connection().execute(_ADD_REPORTS, reports)
        post_all(session, self.unawaited, is_awaited=False)
        for address, items in self.posts.items():
            most = self.message_sizes.get(address, MAX_ITEMS)
            for same_kind in _by_kind(items):
                post(session, address, *same_kind, most=most)

    def _apply_groups(self, session: Session, run_id: str) -> None:
        added = [_group_row(group, run_id) for group in self.admitted]
        restarted = [_restarted_columns(group) for group in self.restarted.values()]
        closed = [_closed_columns(group, outcomes) for group, outcomes in self.closed]
        replayed = [_replayed_row(group, run_id, outcomes) for group, outcomes in self.replayed]
        steps = (_ADD_GROUPS, added), (_CHANGE_GROUP, restarted), (_CHANGE_GROUP, closed)
        for statement, rows in (*steps, (_ADD_GROUPS, replayed)):
            if rows:
                session.connection().execute(statement, rows)

    def _apply_evaluations(self, session: Session, run_id: str) -> None:
        if self.evaluations_begun:
            rows = [{"run_id": run_id, **row} for row in self.evaluations_begun]
            session.exec(insert(EvaluationRow), params=rows)
        for number, columns in self.evaluations_changed.items():
            params = [{"run_id": run_id, "number": number, **columns}]
            session.exec(update(EvaluationRow), params=params)

    def _apply_ops(self, session: Session, model_id: str) -> None:
        if self.ops:
            session.connection().execute(_ADD_OPS, self.ops)
        if self.answers:
            answers = [
                {"its_model": model_id, "its_number": number, "outcome": outcome}
                for number, outcome in self.answers.items()
            ]
            session.connection().execute(_CHANGE_OP, answers)
        if self.prune_ops_to:
            old = (col(OpRow.model_id) == model_id) & (col(OpRow.number) <= self.prune_ops_to)
            session.exec(delete(OpRow).where(old))

    def _apply_checkpoints(self, session: Session, model_id: str) -> None:
        """One that is saved again, after its trainer was lost, takes its own place."""
        names = self.deleted | {row["name"] for row in self.saved}
        if names:
            is_old = (col(Checkpoint.model_id) == model_id) & col(Checkpoint.name).in_(names)
            session.exec(delete(Checkpoint).where(is_old))
        if self.saved:
            session.exec(insert(Checkpoint), params=self.saved)


def _report(run_id: str, report: MetricsView) -> dict[str, Any]:
    return {"run_id": run_id, "number": report.number, "body": report.model_dump(mode="json")}


def _by_kind(items: list[Item]) -> list[list[Item]]:
    """Runs of items of one kind, in order: a message carries one kind only."""
    runs: list[list[Item]] = []
    for item in items:
        if runs and type(runs[-1][0]) is type(item):
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def _group_row(group: Group, run_id: str) -> dict[str, Any]:
    return {
        "id": group.id,
        "run_id": run_id,
        "number": group.number,
        "purpose": group.purpose.value,
        "environment": group.environment,
        "task_index": group.task.index,
        "level": group.task.level,
        "evaluation": group.evaluation,
        "n_members": group.n_members,
        "min_version": group.min_version,
        "deadline_s": group.deadline_s,
        "is_open": True,
        "attempts": list(group.attempts),
        "outcomes": None,
    }


def _restarted_columns(group: Group) -> dict[str, Any]:
    return {
        "its_id": group.id,
        "attempts": list(group.attempts),
        "deadline_s": group.deadline_s,
    }


def _closed_columns(group: Group, outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    return {"its_id": group.id, "is_open": False, "outcomes": outcomes, **_played(group)}


def _played(group: Group) -> dict[str, Any]:
    """What its environment told of the task."""
    task = group.task
    return {"task_number": task.number, "task_id": task.id, "category": task.category}


def _replayed_row(group: Group, run_id: str, outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    """Of another run's group, or of the own one that stands for it in an evaluation."""
    is_own = group.scores is not None
    return _group_row(group, run_id) | {
        "id": group.id if is_own else replayed_id(run_id, group.id, group.provenance.reading.epoch),
        "deadline_s": 0.0,
        "is_open": False,
        "outcomes": outcomes,
        **_played(group),
    }


def replayed_id(run_id: str, group_id: str, epoch: int) -> str:
    """Of the row of another run's group: that run has one of its own, and each epoch of a replay another."""
    return f"{group_id}@{run_id}" if epoch == 0 else f"{group_id}@{run_id}+{epoch}"


def recorded_id(row_id: str) -> tuple[GroupId, int]:
    """The id that a group has in the recording, and the epoch of the row."""
    group_id, _, replay = row_id.rpartition("@")
    return GroupId(group_id), int(replay.partition("+")[2] or 0)


def group_of(episode: str) -> GroupId:
    return GroupId(episode.rpartition(".")[0])


def op_row(model_id: str, number: int, kind: str, item: Item) -> dict[str, Any]:
    return {
        "model_id": model_id,
        "number": number,
        "kind": kind,
        "item_id": item.envelope.id,
        "body": encode([item]),
        "outcome": None,
    }
