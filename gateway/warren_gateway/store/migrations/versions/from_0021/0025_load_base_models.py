"""Load base models that nobody holds"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    with op.batch_alter_table("scheduler", schema=None) as batch_op:
        batch_op.add_column(sa.Column("loading", sa.JSON(), nullable=False, server_default="{}"))
