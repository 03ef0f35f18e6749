"""Which checkpoints a run may go on from."""

import pytest
from sqlmodel import Session
from tests.support.databases import memory_engine
from tests.unit.coordinator.world import config

from warren_gateway.access.caller import Viewer
from warren_gateway.runs.checkpoints import UnusableCheckpoint, require_checkpoint
from warren_gateway.store.tables import Checkpoint, Model, Run
from warren_schemas.config import RecordedSource


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
        (
            "me",
            {"resume_from": {"run": "run_1", "checkpoint": "step-000003"}, "limits": {"steps": 3}},
            "step-000003 of run_1 has 3 steps behind it, and limits.steps is 3, .*: --set limits.steps=6",
        ),
        (
            "me",
            {"resume_from": {"run": "run_1"}, "limits": {"steps": 9}},
            "step-000009 of run_1 has 9",
        ),
        (
            "me",
            {"resume_from": {"run": "run_4"}, "limits": {"steps": 9}},
            "file:///x/4/step-000009",
        ),
    ],
)
def test_a_run_resumes_from_what_is_its_owner_s_and_fits(
    owner: str, changes: dict[str, object], expected: str | None
) -> None:
    engine = memory_engine()
    with Session(engine) as session:
        newest = "file:///x/m/states/step-000009"
        rows = (
            ("run_1", "completed", newest),
            ("run_2", "cancelled", None),
            ("run_3", "running", newest),
            (
                "run_4",
                "completed",
                "file:///x/4/step-000009",
            ),  # a replay: it has no step to count on from
        )
        for run, state, url in rows:
            replay = config().for_replay(RecordedSource(run="run_1"))
            row = Run(
                id=run,
                owner="me",
                name="r",
                config=(replay if run == "run_4" else config()).model_dump(mode="json"),
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
        for run, step, url in (
            ("run_1", 3, "file:///x/m/states/step-000003"),
            ("run_1", 9, newest),
            ("run_4", 9, "file:///x/4/step-000009"),
        ):
            session.add(
                Checkpoint(
                    model_id=f"model_{run}",
                    name=f"step-{step:06d}",
                    op=step,
                    version=step + 40,
                    step=step,
                    url=url,
                    size_bytes=1,
                    created_s=1.0,
                )
            )
        session.flush()
        if expected is not None and not expected.startswith("file"):
            with pytest.raises(UnusableCheckpoint, match=expected):
                require_checkpoint(
                    session, Viewer(owner), config(**{"limits": {"steps": 10}, **changes})
                )
        else:
            assert (
                require_checkpoint(
                    session, Viewer(owner), config(**{"limits": {"steps": 10}, **changes})
                )
                == expected
            )
    engine.dispose()
