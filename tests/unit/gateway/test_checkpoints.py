"""Which checkpoints a run may go on from."""

import pytest
from sqlmodel import Session, SQLModel, create_engine
from tests.unit.coordinator.world import config

from warren_gateway.checkpoints import UnusableCheckpoint, require_checkpoint
from warren_gateway.store.tables import Checkpoint, Model, Run


@pytest.mark.parametrize(
    ("owner", "changes", "expected"),
    [
        ("me", {}, None),
        ("me", {"resume_from": {"run": "run_1"}}, "file:///x/m/states/step-000009"),
        (
            "me",
            {"resume_from": {"run": "run_1", "checkpoint": "step-000003"}},
            "file:///x/m/states/step-000003",
        ),
        (
            "me",
            {"resume_from": {"run": "run_1", "checkpoint": "step-000004"}},
            "no checkpoint step-000004; it has: step-000003",
        ),
        ("me", {"resume_from": {"run": "run_9"}}, "no run run_9"),
        ("you", {"resume_from": {"run": "run_1"}}, "no run run_1"),
        ("me", {"resume_from": {"run": "run_2"}}, "saved no checkpoint yet"),
        (
            "me",
            {"resume_from": {"run": "run_3"}},
            "run_3 is running, .* wait for its end, or cancel",
        ),
        (
            "me",
            {"resume_from": {"run": "run_1"}, "model": {"base": "other"}},
            "run_1 trains another model",
        ),
    ],
)
def test_a_run_resumes_from_what_is_its_owner_s_and_fits(
    owner: str, changes: dict[str, object], expected: str | None
) -> None:
    engine = create_engine("sqlite://")
    SQLModel.metadata.create_all(engine)
    with Session(engine) as session:
        newest = "file:///x/m/states/step-000009"
        rows = (
            ("run_1", "completed", newest),
            ("run_2", "cancelled", None),
            ("run_3", "running", newest),
        )
        for run, state, url in rows:
            row = Run(
                id=run,
                owner="me",
                name="r",
                config=config().model_dump(mode="json"),
                state=state,
                n_steps=9,
                created_s=1.0,
            )
            session.add(row)
            session.flush()
            session.add(
                Model(id=f"model_{run}", run_id=run, base_model="tiny", spec={}, checkpoint_url=url)
            )
        session.flush()
        session.add(
            Checkpoint(
                model_id="model_run_1",
                name="step-000003",
                op=3,
                version=3,
                step=3,
                url="file:///x/m/states/step-000003",
                size_bytes=1,
                created_s=1.0,
            )
        )
        session.flush()
        if expected is not None and not expected.startswith("file"):
            with pytest.raises(UnusableCheckpoint, match=expected):
                require_checkpoint(session, owner, config(**changes))
        else:
            assert require_checkpoint(session, owner, config(**changes)) == expected
    engine.dispose()
