"""Share runs, limit users and count what runs use"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "share",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"]),
        sa.PrimaryKeyConstraint("run_id", "user"),
    )
    op.create_index("ix_share_user", "share", ["user"], unique=False)
    op.create_table(
        "usage",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("training_gpu_s", sa.Float(), nullable=False),
        sa.Column("sampling_gpu_s", sa.Float(), nullable=False),
        sa.Column("n_tokens_trained", sa.BigInteger(), nullable=False),
        sa.Column("n_tokens_sampled", sa.BigInteger(), nullable=False),
        sa.Column("n_episodes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "day"),
    )
    op.create_index("ix_usage_owner", "usage", ["owner"], unique=False)
    op.create_table(
        "recent_use",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("gpu_s", sa.Float(), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("owner"),
    )
    with op.batch_alter_table("account", schema=None) as batch_op:
        batch_op.add_column(sa.Column("limits", sa.JSON(), nullable=False, server_default="{}"))
    with op.batch_alter_table("model", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("policy_bytes", sa.BigInteger(), nullable=False, server_default="0")
        )
