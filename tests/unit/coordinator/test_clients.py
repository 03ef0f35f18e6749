"""A model that its client drives: its requests become ops in its order, and every one gets an outcome.

The store is real, the trainer a few lines: what it applies is what stands in the op log.
"""

import random
import time
from dataclasses import dataclass, field, replace

import pytest
from pydantic import ValidationError
from sqlalchemy import Engine
from sqlmodel import Session, col, select
from tests.support.databases import memory_engine
from tests.support.factories import make_heartbeat, make_token_batch

from warren_gateway.access.caller import Viewer
from warren_gateway.coordinator import answering, decisions, records
from warren_gateway.coordinator.clients import reading, requests
from warren_gateway.coordinator.clients.order import GAP_S
from warren_gateway.coordinator.clients.requests import MOST_IN_LOG, SAVE_AFTER_S
from warren_gateway.coordinator.lease import trainer_lease
from warren_gateway.coordinator.state.client import Asked
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.inference.names import point_name
from warren_gateway.inference.pinning import CannotServe
from warren_gateway.stop_request import StopRequest
from warren_gateway.store.tables import Checkpoint, JobRow, MetricsRow, OpRow, OutboxRow, Run
from warren_gateway.trainable.asking import Wanted, wanted
from warren_gateway.trainable.creating import insert_model
from warren_gateway.trainable.outcomes import (
    UNDELIVERED_S,
    Done,
    Failed,
    Outcome,
    Pending,
    delete_old,
    read,
)
from warren_gateway.trainable.owned import owned
from warren_gateway.trainable.problems import ModelClosed
from warren_gateway.trainable.submitting import insert_request
from warren_gateway.trainable.viewing import shown
from warren_gateway.usage.limits import DEFAULT_LIMITS
from warren_schemas.codec.wire import decode
from warren_schemas.config import PpoLoss
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.envelope import Envelope
from warren_schemas.events import (
    RunEvent,
    RunEventBody,
    RunState,
    StepCompleted,
    WarningRaised,
)
from warren_schemas.http import MetricsView, ServeModel
from warren_schemas.http.trainable import (
    BeginFrom,
    CreateModel,
    LoadStateAsked,
    PublishAsked,
    SaveStateAsked,
    SkipAsked,
)
from warren_schemas.ids import MessageId, RunId, WorkerId
from warren_schemas.metrics.registry import find
from warren_schemas.training import (
    KEEP_POLICIES,
    Forward,
    ForwardBackward,
    LoadState,
    Op,
    OpBody,
    OpDone,
    OpFailed,
    OpOutcome,
    OpResult,
    OptimStep,
    Policy,
    PublishPolicy,
    Refused,
    SaveState,
)

ME = Viewer("me")


@dataclass
class World:
    """A model with its coordinator, and a trainer that holds it."""

    engine: Engine = field(default_factory=memory_engine)
    run: RunId = field(init=False)
    model: str = field(init=False)
    state: CoordinatorState = field(init=False)
    version: int = 0
    now_s: float = 0.0
    beats: tuple[Heartbeat, ...] = ()
    """Of trainers."""
    notice: str | None = None
    """What the trainer wants people to know."""
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    """What the trainer tells of an update."""
    must_leave: list[bool] = field(default_factory=list[bool])
    """Of each change, whether messages of it leave at once."""

    def __post_init__(self) -> None:
        self.create(CreateModel(base_model="tiny"))

    def create(self, body: CreateModel) -> None:
        """Another model takes the place of the one before."""
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            made = insert_model(session, ME, body, DEFAULT_LIMITS)
            self.run, self.model = RunId(made.run.id), made.model.id
            self.now_s = made.run.created_s
        self.load()

    def load(self) -> None:
        """Another coordinator takes the run over, and another trainer the model."""
        with Session(self.engine) as session, session.begin():
            self.state = records.load(session, self.run, self.now_s)
        self.hold()

    def hold(self) -> None:
        self.state.now_s = self.now_s
        self.state.lease.epoch += 1
        trainer_lease.grant(self.state, WorkerId("trainer_1"))
        self._take(0, OpDone(version=self.version))
        self.turn()

    def ask(self, asked: OpBody | Wanted, sequence: int | None = None) -> str:
        """The future of an op."""
        want = asked if isinstance(asked, Wanted) else Wanted(asked)
        with Session(self.engine) as session, session.begin():
            accepted = insert_request(session, ME, self.model, want, None, sequence)
        return accepted.request.id

    def turn(self, after_s: float = 0.0) -> None:
        """The coordinator looks and decides."""
        self.now_s += after_s
        self.state.now_s = self.now_s
        with Session(self.engine) as session, session.begin():
            client = self.state.client
            seen = reading.look(session, self.run, self.model, client.next_sequence)
        reading.take_in(self.state, replace(seen, now_s=self.now_s))
        self._decide()

    def _decide(self) -> None:
        decisions.decide(self.state, lambda role: self.beats if role is WorkerRole.TRAINER else ())
        change = self.state.take_change()
        if change.is_empty:
            return
        with Session(self.engine) as session, session.begin():
            self.must_leave.append(records.save(session, self.state, change))

    def log(self) -> list[tuple[int, OpBody]]:
        """The ops that are in the log."""
        with Session(self.engine) as session:
            rows = session.exec(select(OpRow).order_by(col(OpRow.number))).all()
            ops = [op for row in rows for op in decode(row.body).items if isinstance(op, Op)]
        return [(op.number, op.body) for op in ops if op.model == self.model]

    def kinds(self) -> list[str]:
        return [body.kind for _, body in self.log()]

    def told(self) -> list[RunEventBody]:
        """To those who follow the run."""
        with Session(self.engine) as session:
            rows = session.exec(select(OutboxRow).order_by(col(OutboxRow.id))).all()
            items = [item for row in rows for item in decode(row.body).items]
        return [item.body for item in items if isinstance(item, RunEvent)]

    def warnings(self) -> list[str]:
        return [body.message for body in self.told() if isinstance(body, WarningRaised)]

    def steps(self) -> list[MetricsView]:
        """What is kept of each, which is what those who follow the run were told."""
        with Session(self.engine) as session:
            rows = session.exec(select(MetricsRow).order_by(col(MetricsRow.number))).all()
            kept = [MetricsView.model_validate(row.body) for row in rows]
        told = [body for body in self.told() if isinstance(body, StepCompleted)]
        assert [(row.step, row.metrics) for row in kept] == [(b.step, b.metrics) for b in told]
        return kept

    def answer(self, *, failing: dict[int, str] | None = None, duration_s: float = 0.0) -> None:
        """The trainer answers everything that it has not answered yet."""
        for number, body in self.log():
            if number > self.state.learning.ops.done:
                why = (failing or {}).get(number)
                outcome = self._outcome(number, body, duration_s) if why is None else why
                if isinstance(outcome, str):
                    outcome = OpFailed(reason=outcome, is_users=True)
                self._take(number, outcome)
        self._decide()

    def _outcome(self, number: int, body: OpBody, duration_s: float) -> OpOutcome:
        if isinstance(body, Refused):
            return OpFailed(reason=body.reason, is_users=True)
        self.version += isinstance(body, OptimStep | LoadState)
        done = OpDone(version=self.version, duration_s=duration_s, notice=self.notice)
        if isinstance(body, ForwardBackward):
            return done.model_copy(update={"metrics": self.metrics})
        if isinstance(body, OptimStep):
            optimizer = {"grad_norm": 2.0, "learning_rate": body.learning_rate}
            return done.model_copy(update={"metrics": optimizer})
        if isinstance(body, SaveState):
            return done.model_copy(update={"checkpoint_url": f"file:///{body.name}"})
        if isinstance(body, PublishPolicy):
            url, is_live = f"file:///v{self.version}", body.is_live
            policy = Policy(version=self.version, url=url, size_bytes=1, is_live=is_live)
            return done.model_copy(update={"policy": policy})
        return done

    def _take(self, number: int, outcome: OpOutcome) -> None:
        op = self.state.learning.ops.ids.get(number)
        result = OpResult(
            envelope=Envelope(run=self.run),
            model=self.state.model,
            epoch=self.state.lease.epoch,
            number=number,
            op=None if op is None else MessageId(op),
            outcome=outcome,
        )
        answering.absorb_answer(self.state, result)

    def outcome(self, future: str) -> Outcome:
        with Session(self.engine) as session:
            return read(ME, future, lambda _: None, session)

    def reason(self, future: str) -> str:
        failed = self.outcome(future)
        assert isinstance(failed, Failed)
        return failed.reason

    def next_sequence(self) -> int:
        """As the API tells it."""
        with Session(self.engine) as session:
            (seen,) = shown(session, [owned(session, ME, self.model)])
            return seen.next_sequence

    def publish(self) -> None:
        """A new version, without a name."""
        self.ask(optim_step())
        self.ask(wanted(PublishAsked()))
        self.turn()
        self.answer()

    def row(self) -> Run:
        with Session(self.engine, expire_on_commit=False) as session:
            return session.get_one(Run, self.run)

    def checkpoints(self) -> set[str]:
        with Session(self.engine) as session:
            return set(session.exec(select(Checkpoint.name)).all())


@pytest.fixture
def world() -> World:
    return World()


def optim_step(learning_rate: float = 1e-3) -> OptimStep:
    return OptimStep(learning_rate=learning_rate)


def update() -> OpBody:
    return ForwardBackward(loss=PpoLoss(), batch=make_token_batch(3, 5))


def save(name: str, *, overwrite: bool = False) -> Wanted:
    return wanted(SaveStateAsked(name=name, overwrite=overwrite))


def test_ops_without_a_number_take_their_turns_as_they_come(world: World) -> None:
    futures = [world.ask(update()), world.ask(optim_step()), world.ask(wanted(PublishAsked()))]
    world.turn()
    assert world.kinds() == ["forward_backward", "optim_step", "publish_policy"]
    assert all(isinstance(world.outcome(future), Pending) for future in futures)
    world.answer()
    assert [world.outcome(f).request.kind for f in futures] == world.kinds()
    assert all(isinstance(world.outcome(future), Done) for future in futures)
    assert world.row().step == 1


@pytest.mark.parametrize("seed", range(8))
def test_numbered_ops_are_applied_by_number_whatever_order_they_come_in(
    world: World, seed: int
) -> None:
    rng, rates = random.Random(seed), {n: n / 100 for n in range(1, 13)}
    arrivals = rng.sample(sorted(rates), len(rates))
    for sequence in arrivals:
        world.ask(optim_step(learning_rate=rates[sequence]), sequence)
        if rng.random() < 0.5:
            world.turn()
        if rng.random() < 0.2:
            world.load()  # the coordinator died
    world.turn()
    applied = [body.learning_rate for _, body in world.log() if isinstance(body, OptimStep)]
    assert applied == list(rates.values())


def test_what_waits_behind_a_gap_fails_after_a_while_and_spoils_the_window(world: World) -> None:
    before = world.ask(update(), 1)
    late = [world.ask(update(), 3), world.ask(optim_step(), 4)]
    world.turn()
    assert world.kinds() == ["forward_backward"]
    assert all(isinstance(world.outcome(future), Pending) for future in late)
    world.turn(after_s=GAP_S + 5)
    assert "request 2 has not come" in world.reason(late[0])
    assert "request 2 has not come" in world.reason(late[1])
    refused = world.log()[-1][1]
    assert isinstance(refused, Refused)
    assert refused.spoils_gradient
    missed, after = world.ask(update(), 2), world.ask(optim_step(), 5)
    world.turn()
    assert "came after later ones" in world.reason(missed)
    world.answer(failing={3: "a forward_backward failed"})
    assert isinstance(world.outcome(before), Done)
    assert world.kinds()[-1] == "optim_step"
    assert world.reason(after) == "a forward_backward failed"


def test_a_client_that_starts_again_is_told_a_number_that_nothing_had(world: World) -> None:
    world.ask(update(), 1)
    world.ask(optim_step(), 3)
    world.turn()
    assert world.next_sequence() == 4
    world.turn(after_s=GAP_S + 5)
    world.answer()
    with Session(world.engine) as session, session.begin():
        delete_old(session, time.time() + 2 * UNDELIVERED_S)
    assert world.next_sequence() == 4


def test_what_a_name_is_pinned_to_stays(world: World) -> None:
    world.publish()
    with Session(world.engine) as session, session.begin():
        point_name(ME, ServeModel(name="prod", run=world.run, step=1), session)
    world.load()
    world.publish()
    published = [body for _, body in world.log() if isinstance(body, PublishPolicy)]
    assert published[-1].keep == (1,)


def test_no_name_is_pinned_to_what_ops_under_way_may_delete(world: World) -> None:
    world.publish()
    for _ in range(KEEP_POLICIES):
        world.ask(wanted(PublishAsked()))
    with Session(world.engine) as session, session.begin(), pytest.raises(CannotServe):
        point_name(ME, ServeModel(name="prod", run=world.run, step=1), session)


def test_a_failed_op_ends_nothing(world: World) -> None:
    bad, good = world.ask(update()), world.ask(optim_step())
    world.turn()
    world.answer(failing={1: "token id 99 is outside"})
    failed = world.outcome(bad)
    assert isinstance(failed, Failed)
    assert (failed.category, failed.reason) == ("user", "token id 99 is outside")
    assert isinstance(world.outcome(good), Done)
    assert not world.state.is_over


def test_no_more_ops_are_in_the_log_than_it_has_room_for(world: World) -> None:
    futures = [world.ask(optim_step(), n) for n in range(1, 2 * MOST_IN_LOG + 1)]
    world.turn()
    assert len(world.log()) == MOST_IN_LOG
    world.answer()
    world.turn()
    assert len(world.log()) == 2 * MOST_IN_LOG
    world.answer()
    assert all(isinstance(world.outcome(future), Done) for future in futures)


def test_an_outcome_stays_when_a_failover_applies_its_op_again(world: World) -> None:
    future = world.ask(update())
    world.turn()
    world.answer()
    first = world.outcome(future)
    world.load()
    assert world.state.learning.ops.done == 0
    world.answer(failing={1: "this time it fails"})
    assert world.outcome(future) == first


def test_an_op_that_was_done_and_fails_again_moves_the_model(world: World) -> None:
    future, after = world.ask(update()), world.ask(optim_step())
    world.turn()
    world.answer()
    world.load()
    world.ask(save("a"))
    world.turn()
    world.answer(failing={1: "no memory here"})
    assert isinstance(world.outcome(future), Done)
    assert isinstance(world.outcome(after), Done)
    assert not world.state.lease.is_opened
    assert world.checkpoints() == set()  # it would lack the op
    world.hold()
    world.answer()
    assert world.checkpoints() == {"a"}


def test_a_model_whose_op_fails_everywhere_ends(world: World) -> None:
    world.ask(update())
    world.turn()
    world.answer()
    for _ in range(trainer_lease.GRANTS_IN_VAIN):
        world.hold()
        world.answer(failing={1: "no memory here"})
    assert world.state.run_state is RunState.FAILED


def test_an_op_that_has_failed_fails_again_after_a_failover(world: World) -> None:
    world.ask(update())
    world.ask(LoadState(url="file:///a"))
    world.ask(optim_step())
    world.turn()
    world.answer(failing={1: "too long", 2: "no such file", 3: "op 1: too long", 4: "disk"})
    world.load()
    with Session(world.engine) as session, session.begin():
        records.send_unanswered(session, world.state)
        sent = [item for row in session.exec(select(OutboxRow)) for item in decode(row.body).items]
    again = {op.number: op.body for op in sent if isinstance(op, Op)}  # the newest of each
    assert [again[number] for number in (1, 2, 3)] == [
        Refused(reason="too long", spoils_gradient=True),
        Refused(reason="no such file"),
        Refused(reason="op 1: too long", begins_window=True),
    ]


def test_a_state_is_loaded_once_it_is_saved(world: World) -> None:
    world.ask(update())
    world.ask(save("a"))
    world.ask(wanted(LoadStateAsked(checkpoint="a")))
    world.turn()
    assert world.kinds() == ["forward_backward", "save_state"]
    world.answer()
    assert world.kinds()[-2:] == ["load_state", "save_state"]  # what it needs may be deleted
    loaded = next(body for _, body in world.log() if isinstance(body, LoadState))
    assert loaded.url == "file:///op-00000002"


def test_a_name_is_taken_until_it_is_overwritten(world: World) -> None:
    world.ask(save("a"))
    world.ask(update())
    again = world.ask(save("a"))
    unknown = world.ask(wanted(LoadStateAsked(checkpoint="b")))
    world.turn()
    world.answer()
    assert "there is a checkpoint a already" in world.reason(again)
    assert "no checkpoint b" in world.reason(unknown)
    over = world.ask(save("a", overwrite=True))
    world.turn()
    world.answer()
    assert isinstance(world.outcome(over), Done)
    assert world.checkpoints() == {"a"}


def test_what_is_overwritten_stays_until_the_new_one_is_saved(world: World) -> None:
    world.ask(save("a"))
    world.turn()
    world.answer()
    over = world.ask(save("a", overwrite=True))
    world.turn()
    world.answer(failing={2: "the disk is gone"})
    assert isinstance(world.outcome(over), Failed)
    world.ask(save("b"))
    world.ask(wanted(LoadStateAsked(checkpoint="a")))
    world.turn()
    saved, loaded, *_ = [body for number, body in world.log() if number > 2]
    assert isinstance(saved, SaveState) and "op-00000001" in (saved.keep or ())
    assert isinstance(loaded, LoadState) and loaded.url == "file:///op-00000001"
    world.answer()
    world.ask(save("a", overwrite=True))
    world.turn()
    world.answer()
    assert [mark.op for mark in world.state.learning.checkpoints.marks if mark.label == "a"] == [6]


def test_a_checkpoint_can_t_have_the_name_of_an_automatic_one() -> None:
    with pytest.raises(ValidationError, match="op-0002 is a name of automatic checkpoints"):
        save("op-0002")
    save("op-0002-mine")


def test_a_drained_trainer_loses_a_model_that_can_t_be_saved(world: World) -> None:
    world.ask(update())
    world.turn()
    world.answer()
    trainer = WorkerId("trainer_1")
    world.beats = (make_heartbeat(worker=trainer, role=WorkerRole.TRAINER, is_draining=True),)
    world.turn()
    assert world.kinds() == ["forward_backward", "save_state"]
    assert world.state.lease.holder == trainer
    world.answer(failing={2: "the disk is gone"})
    assert world.state.lease.holder is None
    world.beats = ()
    world.hold()
    assert world.state.lease.is_opened


def test_a_save_keeps_what_has_a_name_and_what_a_failover_begins_with(world: World) -> None:
    for name in ("a", "b"):
        world.ask(update())
        world.ask(save(name))
        world.turn()
        world.answer()
    kept: set[str] = set()
    for _ in range(3):
        world.ask(update())
        world.turn()
        world.answer(duration_s=SAVE_AFTER_S)  # now a checkpoint is worth its time
        [asked] = [body for _, body in world.log() if isinstance(body, SaveState)]
        kept = set(asked.keep or ())
        world.answer()
    assert kept == {"op-00000002", "op-00000004", "op-00000008"}
    assert world.checkpoints() == {"a", "b", "op-00000008", "op-00000010"}


def test_trainers_keep_the_versions_of_snapshots_that_have_a_name(world: World) -> None:
    for _ in range(2):
        world.ask(optim_step())
        world.ask(wanted(PublishAsked(name="first")))
        world.turn()
        world.answer()
    world.ask(wanted(PublishAsked()))
    world.turn()
    published = [body for _, body in world.log() if isinstance(body, PublishPolicy)]
    assert published[-1].keep == (2,)  # of the two of one name the newer one


def test_a_model_whose_client_is_silent_is_saved_and_closed(world: World) -> None:
    world.ask(update())
    world.turn()
    world.answer()
    world.turn(after_s=601.0)
    assert world.kinds()[-1] == "save_state"
    world.answer()
    assert world.state.run_state is RunState.COMPLETED
    assert len(world.checkpoints()) == 1
    with pytest.raises(ModelClosed):
        world.ask(update())


def test_a_model_whose_client_leaves_before_it_has_a_trainer_takes_none(world: World) -> None:
    with Session(world.engine) as session, session.begin():
        made = insert_model(session, ME, CreateModel(base_model="tiny"), DEFAULT_LIMITS)
        world.run, world.model = RunId(made.run.id), made.model.id
        world.state = records.load(session, world.run, world.now_s)
    world.turn(after_s=601.0)
    assert world.state.run_state is RunState.CANCELLED
    row = world.row()
    assert (row.state, row.error) == ("cancelled", "cancelled, for its client was gone")


def test_a_client_is_not_silent_while_nobody_could_hear_it(world: World) -> None:
    world.ask(update())
    world.turn()
    world.answer()
    world.now_s += 10_000.0
    world.load()  # no gateway was there for so long
    assert world.state.run_state is RunState.RUNNING
    world.turn(after_s=590.0)
    assert world.state.run_state is RunState.RUNNING
    world.turn(after_s=11.0)
    assert world.state.run_state is RunState.FINISHING


def test_what_nobody_could_take_is_no_gap(world: World) -> None:
    behind = world.ask(update(), 2)
    world.turn()
    world.now_s += 10_000.0
    world.load()
    first = world.ask(update(), 1)
    world.turn(after_s=GAP_S - 1)
    world.answer()
    assert isinstance(world.outcome(first), Done)
    assert isinstance(world.outcome(behind), Done)


def test_a_notice_of_the_trainer_is_told(world: World) -> None:
    world.notice = "the trainer had no memory for passes of 16384 tokens"
    world.ask(update())
    world.turn()
    world.answer()
    assert world.warnings() == [world.notice]


def test_a_model_waits_for_what_its_silent_client_asked_for(world: World) -> None:
    world.ask(update())
    world.turn(after_s=601.0)
    assert world.state.run_state is RunState.RUNNING


def test_a_silent_client_that_waits_is_looked_at_now_and_then(world: World) -> None:
    world.ask(update())
    world.turn(after_s=601.0)
    assert not requests.is_look_due(world.state)
    assert decisions.next_deadline_s(world.state) > world.now_s


def test_a_gap_wakes_nobody_while_a_model_is_paused(world: World) -> None:
    world.ask(update(), 2)
    world.state.observed.stop_request = StopRequest.PAUSE
    world.turn(after_s=GAP_S + 5)
    assert decisions.next_deadline_s(world.state) > world.now_s


def test_what_waits_for_room_in_the_log_is_no_gap(world: World) -> None:
    futures = [world.ask(optim_step(), n) for n in range(1, MOST_IN_LOG + 2)]
    behind = world.ask(optim_step(), MOST_IN_LOG + 3)
    world.turn()
    world.turn(after_s=GAP_S + 5)
    assert isinstance(world.outcome(futures[-1]), Pending)
    assert decisions.next_deadline_s(world.state) > world.now_s
    world.answer()
    world.turn()
    assert f"request {MOST_IN_LOG + 2} has not come" in world.reason(behind)


def test_the_end_of_a_job_is_told_by_the_clock_of_the_store(world: World) -> None:
    before_s = time.time()
    world.now_s += 10_000.0  # of a gateway whose clock is wrong
    world.state.observed.is_cancel_requested = True
    world.turn()
    with Session(world.engine) as session:
        job = session.exec(select(JobRow).where(col(JobRow.run_id) == world.run)).one()
    assert job.state == "over" and job.over_s is not None
    assert before_s <= job.over_s <= time.time()


def test_the_end_of_a_model_fails_what_is_open(world: World) -> None:
    taken, waiting = world.ask(update()), world.ask(update(), 7)
    world.turn()
    world.state.observed.is_cancel_requested = True
    world.turn()
    assert world.state.run_state is RunState.CANCELLED
    assert "the model is cancelled" in world.reason(taken)
    assert "the model is cancelled" in world.reason(waiting)


def test_a_model_that_can_t_begin_with_its_checkpoint_fails(world: World) -> None:
    world.ask(save("a"))
    world.turn()
    world.answer()
    path = f"{world.model}/a"
    world.create(CreateModel(base_model="tiny", begin_from=BeginFrom(checkpoint=path)))
    after = world.ask(update())
    world.turn()
    assert world.kinds()[:1] == ["load_state"]
    world.answer(failing={1: "its files are damaged"})
    assert world.state.run_state is RunState.FAILED
    assert "its files are damaged" in world.reason(after)


def told_of_update(loss: float, n_tokens: float, ratio: float) -> dict[str, float]:
    return {"loss:sum": loss, "tokens:sum": n_tokens, "ratio:mean": ratio, "ratio:max": ratio}


def asked_update(n_sequences: int) -> Wanted:
    return Wanted(update(), Asked(lengths=[3] * n_sequences))


def test_a_step_tells_what_was_told_of_its_window(world: World) -> None:
    for told, n_sequences in (
        (told_of_update(3.0, 4.0, 1.0), 2),
        (told_of_update(6.0, 8.0, 4.0), 1),
    ):
        world.ask(asked_update(n_sequences))
        world.turn()
        world.metrics = told
        world.answer(duration_s=1.5)
        world.load()  # the coordinator died, and the trainer
        world.answer(duration_s=7.0)
    world.ask(optim_step(0.25))
    world.turn()
    world.answer(duration_s=1.0)
    [step] = world.steps()
    assert (step.step, step.version, step.number) == (1, 1, 1)
    assert step.metrics == {
        "policy/loss": 9.0,
        "policy/tokens": 12.0,
        "policy/loss_per_token": 0.75,
        "policy/ratio_mean": 3.0,
        "policy/ratio_max": 4.0,
        "policy/grad_norm": 2.0,
        "policy/learning_rate": 0.25,
        "policy/sequences": 3.0,
        "time/training_s": 4.0,
    }
    assert all(find(tag) for tag in step.metrics)


def test_a_window_begins_with_nothing_of_the_one_before(world: World) -> None:
    world.metrics = told_of_update(3.0, 4.0, 1.0)
    for _ in range(2):
        world.ask(asked_update(1))
        world.ask(optim_step())
        world.turn(after_s=2.0)
        world.answer()
    first, second = world.steps()
    assert second.metrics.pop("time/step_s") == 2.0
    assert first.metrics == second.metrics
    assert (first.step, second.step) == (1, 2)


def test_a_step_that_is_applied_again_is_told_once(world: World) -> None:
    world.metrics = told_of_update(3.0, 4.0, 1.0)
    world.ask(asked_update(1))
    world.ask(optim_step())
    world.ask(asked_update(1))
    world.turn()
    world.answer()
    before = world.steps()
    world.version = 0  # a trainer begins anew
    world.load()
    world.answer()
    assert world.steps() == before
    world.ask(optim_step())
    world.turn()
    world.answer()
    assert [row.step for row in world.steps()] == [1, 2]
    assert world.steps()[1].metrics["policy/loss"] == 3.0


def test_a_window_that_is_given_up_is_in_no_step(world: World) -> None:
    """One whose step failed, and one whose gradient a loaded state replaces; what is only measured is in none."""
    world.metrics = told_of_update(3.0, 4.0, 1.0)
    futures = [world.ask(asked_update(1)), world.ask(optim_step())]
    world.turn()
    world.answer(failing={2: "the gradient's norm is nan"})
    assert isinstance(world.outcome(futures[1]), Failed)
    assert world.steps() == []
    world.ask(asked_update(1))
    world.ask(LoadState(url="file:///a"))
    world.ask(Forward(loss=PpoLoss(), batch=make_token_batch(3, 5)))
    world.ask(optim_step())
    world.turn()
    world.answer()
    [step] = world.steps()
    assert step.metrics["policy/sequences"] == 0.0
    assert "policy/loss" not in step.metrics


def test_a_window_whose_step_is_refused_is_in_no_step(world: World) -> None:
    world.metrics = told_of_update(3.0, 4.0, 1.0)
    other = wanted(SkipAsked(reason="another optimizer", begins_window=True))
    for asked in (asked_update(2), other, asked_update(1), optim_step()):
        world.ask(asked)
    world.turn()
    world.answer()
    assert [body.begins_window for _, body in world.log() if isinstance(body, Refused)] == [True]
    [step] = world.steps()
    assert step.metrics["policy/sequences"] == 1.0
    assert step.metrics["policy/loss"] == 3.0


def test_a_mean_of_no_tokens_is_left_out(world: World) -> None:
    world.metrics = told_of_update(0.0, 0.0, 1.0)
    world.ask(asked_update(1))
    world.ask(optim_step())
    world.turn()
    world.answer()
    [step] = world.steps()
    assert step.metrics["policy/tokens"] == 0.0
    assert not {"policy/loss_per_token", "policy/ratio_mean"} & set(step.metrics)


def test_a_step_leaves_with_the_next_message(world: World) -> None:
    world.ask(optim_step())
    world.turn()
    world.answer()
    world.ask(optim_step())
    world.turn()
    assert world.must_leave[-2:] == [False, True]
