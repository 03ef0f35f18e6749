"""Migrations and tables say the same, on both databases."""

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, create_engine, inspect
from sqlmodel import SQLModel

from warren_gateway.store import tables
from warren_gateway.store.migrate import upgrade
from warren_gateway.store.store import Store


async def test_the_migrations_make_exactly_the_tables(any_store_url: str) -> None:
    assert tables.Run.__tablename__ in SQLModel.metadata.tables
    await (await Store.open(any_store_url)).close()
    engine = create_engine(any_store_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, SQLModel.metadata) == []
    engine.dispose()


async def test_migrating_again_changes_nothing(any_store_url: str) -> None:
    engine = create_engine(any_store_url)
    upgrade(engine)
    before = _table_names(engine)
    upgrade(engine)
    assert _table_names(engine) == before
    engine.dispose()


def _table_names(engine: Engine) -> list[str]:
    return inspect(engine).get_table_names()
