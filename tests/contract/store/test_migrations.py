"""Migrations and tables say the same, on both databases."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, create_engine, inspect, text
from sqlmodel import Session, SQLModel

from warren_gateway.store import tables
from warren_gateway.store.migrate import upgrade
from warren_gateway.store.store import Store, StoreUnavailable


async def test_the_migrations_make_exactly_the_tables(any_new_url: str) -> None:
    assert tables.Run.__tablename__ in SQLModel.metadata.tables
    await (await Store.open(any_new_url)).close()
    engine = create_engine(any_new_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, SQLModel.metadata) == []
    engine.dispose()


async def test_a_newer_database_is_named_as_such(any_new_url: str) -> None:
    store = await Store.open(any_new_url)
    await store.transact(_make_newer)
    await store.close()
    with pytest.raises(StoreUnavailable, match="newer Warren"):
        await Store.open(any_new_url)


def _make_newer(session: Session) -> None:
    session.connection().execute(text("UPDATE alembic_version SET version_num = '9999'"))


async def test_migrating_again_changes_nothing(any_new_url: str) -> None:
    engine = create_engine(any_new_url)
    upgrade(engine)
    before = _table_names(engine)
    upgrade(engine)
    assert _table_names(engine) == before
    engine.dispose()


def _table_names(engine: Engine) -> list[str]:
    return inspect(engine).get_table_names()
