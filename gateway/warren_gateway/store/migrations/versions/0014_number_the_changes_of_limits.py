"""Number the changes of limits"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    with op.batch_alter_table("run", schema=None) as batch_op:
        number = sa.Column("limits_number", sa.Integer(), nullable=False, server_default="0")
        batch_op.add_column(number)
