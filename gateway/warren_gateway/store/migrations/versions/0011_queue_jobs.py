"""Queue jobs"""

import json

import sqlalchemy as sa
from alembic import op

from warren_schemas.training import ModelSpec, is_full

revision = "0011"
down_revision = "0010"

FINAL = ("completed", "failed", "cancelled")


def upgrade() -> None:
    job = op.create_table(
        "job",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("base_model", sa.String(), nullable=False),
        sa.Column("is_full", sa.Boolean(), nullable=False),
        sa.Column("n_gpus", sa.Integer(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("plays_at_once", sa.Boolean(), nullable=False),
        sa.Column("environments", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("queued_s", sa.Float(), nullable=False),
        sa.Column("admitted_s", sa.Float(), nullable=True),
        sa.Column("taken_s", sa.Float(), nullable=True),
        sa.Column("over_s", sa.Float(), nullable=True),
        sa.Column("worker", sa.String(), nullable=True),
        sa.Column("is_interrupted", sa.Boolean(), nullable=False),
        sa.Column("is_held_back", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"]),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("run_id"),
    )
    op.create_index("ix_job_state", "job", ["state"], unique=False)
    scheduler = op.create_table(
        "scheduler",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("reserved", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.bulk_insert(scheduler, [{"id": 1, "reserved": {}}])
    op.bulk_insert(job, _jobs_of_runs())


def _jobs_of_runs() -> list[dict[str, object]]:
    """Of runs from before there were jobs: those that go on have a coordinator already."""
    query = (
        "SELECT run.id, model.id, run.owner, model.base_model, model.spec, run.state, run.created_s,"
        " model.holder, model.granted_s, run.ended_s"
        " FROM run JOIN model ON model.run_id = run.id ORDER BY run.created_s, run.id"
    )
    rows = op.get_bind().execute(sa.text(query)).all()
    return [_job(*row) for row in rows]


def _job(
    run: str,
    model: str,
    owner: str,
    base_model: str,
    spec: object,
    run_state: str,
    created_s: float,
    holder: str | None,
    granted_s: float | None,
    ended_s: float | None,
) -> dict[str, object]:
    read = ModelSpec.model_validate_json(spec if isinstance(spec, str) else json.dumps(spec))
    state = "over" if run_state in FINAL else "taken" if holder else "queued"
    return {
        "run_id": run,
        "model_id": model,
        "owner": owner,
        "base_model": base_model,
        "is_full": is_full(read),
        "n_gpus": 1,
        "memory_bytes": None,
        "priority": 0,
        "plays_at_once": False,
        "environments": [],
        "state": state,
        "queued_s": created_s,
        "admitted_s": granted_s,
        "taken_s": granted_s if holder else None,
        "over_s": ended_s,
        "worker": holder,
        "is_interrupted": state == "queued",
        "is_held_back": run_state == "paused",
    }
