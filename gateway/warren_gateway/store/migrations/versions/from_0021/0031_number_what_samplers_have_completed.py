"""Number what the samplers of Tinker's clients have completed"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    for column in (
        sa.Column("n_completed", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("is_polled", sa.Boolean(), nullable=False, server_default=sa.false()),
    ):
        op.add_column("tinker_sampler", column)
    for column in (
        sa.Column("sampler", sa.String(), nullable=False, server_default=""),
        sa.Column("clone", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("completion", sa.BigInteger(), nullable=True),
    ):
        op.add_column("tinker_sample", column)
    op.create_index("ix_tinker_sample_completion", "tinker_sample", ["sampler", "completion"])
