"""Bind answers to ops"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    with op.batch_alter_table("op", schema=None) as batch_op:
        batch_op.add_column(sa.Column("item_id", sa.String(), nullable=False, server_default=""))
