"""Count what is sampled for the clients of Tinker's protocol"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    op.create_table(
        "sampling_use",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("base_model", sa.String(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("n_tokens_prompt", sa.BigInteger(), nullable=False),
        sa.Column("n_tokens_sampled", sa.BigInteger(), nullable=False),
        sa.Column("gpu_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", "run_id", "base_model", "day"),
    )
    op.create_index("ix_sampling_use_owner", "sampling_use", ["owner"])
