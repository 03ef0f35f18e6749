"""Name stop requests"""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"

_RUN = sa.table("run", sa.column("id", sa.String()), sa.column("progress", sa.JSON()))


def upgrade() -> None:
    with op.batch_alter_table("run") as batch_op:
        batch_op.alter_column("wish", new_column_name="stop_request")
    connection = op.get_bind()
    for run_id, progress in connection.execute(sa.select(_RUN.c.id, _RUN.c.progress)).all():
        if progress and "obeying" in progress:
            progress["stopping"] = progress.pop("obeying")
            connection.execute(_RUN.update().where(_RUN.c.id == run_id).values(progress=progress))
