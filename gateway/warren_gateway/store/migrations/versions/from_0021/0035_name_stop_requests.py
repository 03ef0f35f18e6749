"""Name stop requests"""

from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    with op.batch_alter_table("run") as batch_op:
        batch_op.alter_column("wish", new_column_name="stop_request")
