"""Share adapters"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    op.create_table(
        "adapter_share",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "name", "user"),
    )
    op.create_index("ix_adapter_share_user", "adapter_share", ["user"])
