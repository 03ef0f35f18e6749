"""Alembic's entry: it is handed a connection by `warren_gateway.store.migrate`."""

from alembic import context

from warren_gateway.store.tables import SQLModel

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=SQLModel.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
