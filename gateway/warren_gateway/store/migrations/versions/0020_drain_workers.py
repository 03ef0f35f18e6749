"""Drain workers"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "drained_worker",
        sa.Column("worker", sa.String(), nullable=False),
        sa.Column("since_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("worker"),
    )
