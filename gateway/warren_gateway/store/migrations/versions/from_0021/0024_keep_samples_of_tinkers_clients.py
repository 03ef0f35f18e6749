"""Keep the samples that Tinker's clients asked for"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.create_table(
        "tinker_sample",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("asked", sa.LargeBinary(), nullable=True),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("held_until_s", sa.Float(), nullable=False),
        sa.Column("outcome", sa.LargeBinary(), nullable=True),
        sa.Column("failure", sa.String(), nullable=True),
        sa.Column("is_users", sa.Boolean(), nullable=False),
        sa.Column("done_s", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["owner"], ["account.name"]),
        sa.PrimaryKeyConstraint("id"),
    )
    for column in ("holder", "done_s"):
        op.create_index(f"ix_tinker_sample_{column}", "tinker_sample", [column])
