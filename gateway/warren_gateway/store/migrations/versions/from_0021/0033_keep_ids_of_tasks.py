"""Keep ids of tasks"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    with op.batch_alter_table("episode_group") as batch_op:
        batch_op.add_column(sa.Column("task_id", sa.String(), nullable=True))
