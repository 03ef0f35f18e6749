"""Give up what waits too long"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.add_column(sa.Column("waiting_since_s", sa.Float(), nullable=True))
        batch_op.add_column(sa.Column("given_up", sa.String(), nullable=True))
    with op.batch_alter_table("job", schema=None) as batch_op:
        batch_op.add_column(sa.Column("wait_s", sa.Float(), nullable=True))
