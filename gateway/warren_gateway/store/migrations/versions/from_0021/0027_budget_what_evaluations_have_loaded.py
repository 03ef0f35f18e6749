"""Count the base models that were loaded for each owner's evaluations"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    with op.batch_alter_table("scheduler", schema=None) as batch_op:
        batch_op.add_column(sa.Column("evaluated", sa.JSON(), nullable=False, server_default="{}"))
