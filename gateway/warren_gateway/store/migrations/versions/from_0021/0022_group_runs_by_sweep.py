"""Group runs by sweep"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.add_column(sa.Column("sweep", sa.String(), nullable=True))
        batch_op.create_index("ix_run_owner_sweep", ["owner", "sweep"], unique=False)
