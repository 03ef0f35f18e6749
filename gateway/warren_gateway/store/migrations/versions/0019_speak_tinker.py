"""Speak Tinker"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.create_table(
        "tinker_session",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("seen_s", sa.Float(), nullable=False),
        sa.Column("finished_s", sa.Float(), nullable=True),
        sa.Column("sdk_version", sa.String(), nullable=False),
        sa.Column("display_name", sa.String(), nullable=True),
        sa.Column("project", sa.String(), nullable=True),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["owner"], ["account.name"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_tinker_session_owner", "tinker_session", ["owner"])
    op.create_table(
        "tinker_sampler",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("base_model", sa.String(), nullable=False),
        sa.Column("model_path", sa.String(), nullable=True),
        sa.Column("policy", sa.JSON(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["tinker_session.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_tinker_sampler_session_id", "tinker_sampler", ["session_id"])
