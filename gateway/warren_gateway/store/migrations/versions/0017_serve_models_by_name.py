"""Serve models by name"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "served",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("base_model", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=True),
        sa.Column("step", sa.Integer(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("url", sa.String(), nullable=True),
        sa.Column("since_s", sa.Float(), nullable=False),
        sa.Column("until_s", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("served", schema=None) as batch_op:
        batch_op.create_index("ix_served_owner", ["owner"], unique=False)
        batch_op.create_index("ix_served_run_id", ["run_id"], unique=False)
        batch_op.create_index(
            "ix_served_in_force",
            ["owner", "name"],
            unique=True,
            sqlite_where=sa.text("until_s IS NULL"),
            postgresql_where=sa.text("until_s IS NULL"),
        )
