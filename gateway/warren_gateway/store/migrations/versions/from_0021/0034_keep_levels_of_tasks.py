"""Keep levels of tasks"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    with op.batch_alter_table("episode_group") as batch_op:
        batch_op.add_column(sa.Column("level", sa.Integer(), nullable=True))
