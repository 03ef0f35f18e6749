"""Migrations and tables say the same, on both databases."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlmodel import Session, SQLModel, select

from warren_gateway.store import tables
from warren_gateway.store.migrate import MIGRATIONS, apply_migrations, newest_revision, upgrade
from warren_gateway.store.store import Store, StoreUnavailable

TABLES = tables.SQLModel.metadata.tables
Make = Callable[[Engine], None]


def migrated(engine: Engine) -> None:
    """As a database of before the first migration."""
    with engine.begin() as connection:
        apply_migrations(connection)


@pytest.mark.parametrize("make", [upgrade, migrated])
def test_an_empty_database_gets_exactly_the_tables(any_new_url: str, make: Make) -> None:
    assert tables.Run.__tablename__ in SQLModel.metadata.tables
    engine = create_engine(any_new_url)
    make(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, SQLModel.metadata) == []
    engine.dispose()


def test_made_at_once_and_by_migrations_it_is_the_same(any_new_url: str, tmp_path: Path) -> None:
    """Keys, indexes, constraints, the first rows, and what the next migration begins with."""
    engine = create_engine(any_new_url)
    upgrade(engine)
    at_once = described(engine)
    with engine.begin() as connection:
        drop_all(connection)
    migrated(engine)
    assert described(engine) == at_once
    engine.dispose()


def described(engine: Engine) -> dict[str, Any]:
    """But for defaults on the server's side, of which a migration needs more: for the rows that are there."""
    found = inspect(engine)
    names = sorted(found.get_table_names())
    with Session(engine) as session:
        first = [row.model_dump() for row in session.exec(select(tables.SchedulerRow))]
        n_rows = {
            name: session.connection().execute(text(f'SELECT count(*) FROM "{name}"')).scalar()
            for name in names
        }
        revision = session.connection().execute(text("SELECT version_num FROM alembic_version"))
        assert revision.scalars().all() == [newest_revision()]
    shapes = {
        name: (
            sorted((c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(name)),
            found.get_pk_constraint(name)["constrained_columns"],
            sorted(str(index["column_names"]) for index in found.get_indexes(name)),
            sorted(str(one["column_names"]) for one in found.get_unique_constraints(name)),
            sorted(
                str((key["constrained_columns"], key["referred_table"], key["referred_columns"], key.get("options")))
                for key in found.get_foreign_keys(name)
            ),
        )
        for name in names
    }  # fmt: skip
    return {"first": first, "n_rows": n_rows, "shapes": shapes}


def drop_all(connection: Connection) -> None:
    SQLModel.metadata.drop_all(connection)
    connection.execute(text("DROP TABLE alembic_version"))


def test_the_number_of_the_newest_migration_is_that_of_its_file() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("recursive_version_locations", "true")
    assert ScriptDirectory.from_config(config).get_current_head() == newest_revision()


def test_an_empty_database_that_is_cut_off_stays_empty(any_new_url: str) -> None:
    engine = create_engine(any_new_url)
    event.listen(engine, "before_cursor_execute", cut_off)
    with pytest.raises(KeyboardInterrupt):
        upgrade(engine)
    event.remove(engine, "before_cursor_execute", cut_off)
    assert inspect(engine).get_table_names() == []
    upgrade(engine)
    assert set(inspect(engine).get_table_names()) == {*TABLES, "alembic_version"}
    engine.dispose()


def cut_off(_connection: object, _cursor: object, statement: str, *_others: object) -> None:
    """At the last statement."""
    if statement.startswith("INSERT INTO alembic_version"):
        raise KeyboardInterrupt


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


def test_a_run_that_is_paused_meanwhile_stays_so(any_new_url: str) -> None:
    engine = create_engine(any_new_url)
    upgrade(engine)
    with Session(engine) as session:
        session.add(
            tables.Run(
                id="r", owner="ann", name="r", config={}, state="paused", n_steps=1,
                created_s=0.0, stop_request="pause", progress={"stage_number": 1, "obeying": "pause"},
            )
        )  # fmt: skip
        session.commit()
    with engine.begin() as connection:
        take_0037_back(connection)
        connection.execute(text("DROP TABLE sampling_use"))
        connection.execute(text("ALTER TABLE run RENAME COLUMN stop_request TO wish"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0034'"))
    upgrade(engine)
    with Session(engine) as session:
        run = session.get_one(tables.Run, "r")
        assert run.stop_request == "pause"
        assert run.progress == {"stage_number": 1, "stopping": "pause"}
    engine.dispose()


def take_0037_back(connection: Connection) -> None:
    for column in ("model_id", "kept"):
        connection.execute(text(f"ALTER TABLE tinker_download DROP COLUMN {column}"))
    connection.execute(text("DROP INDEX ix_tinker_sample_used"))
    connection.execute(text("ALTER TABLE tinker_sample DROP COLUMN used"))
    connection.execute(text("DROP INDEX ix_tinker_sampler_model_id"))
    for column in ("model_id", "version", "used_s"):
        connection.execute(text(f"ALTER TABLE tinker_sampler DROP COLUMN {column}"))
    for column in ("live_version", "live_url"):
        connection.execute(text(f"ALTER TABLE model DROP COLUMN {column}"))
    connection.execute(text("UPDATE alembic_version SET version_num = '0036'"))


def test_samplers_that_were_opened_earlier_hold_their_versions(any_new_url: str) -> None:
    engine = create_engine(any_new_url)
    upgrade(engine)
    policy = {"model": "m", "base_model": "b", "min_version": 7, "url": "u"}
    with Session(engine) as session:
        session.add(tables.User(name="ann", created_s=0.0))
        session.flush()
        session.add(tables.TinkerSession(id="s", owner="ann", created_s=0.0, seen_s=0.0))
        session.flush()
        for name, is_pinned in (("stays", True), ("moves", False)):
            its_policy = {**policy, "pinned": is_pinned}
            row = tables.TinkerSampler(
                id=name, session_id="s", base_model="b", policy=its_policy, created_s=5.0
            )
            session.add(row)
        session.commit()
    with engine.begin() as connection:
        take_0037_back(connection)
    upgrade(engine)
    with Session(engine) as session:
        rows = [session.get_one(tables.TinkerSampler, name) for name in ("stays", "moves")]
        told = [(row.model_id, row.version, row.used_s) for row in rows]
        assert told == [("m", 7, 5.0), ("m", None, 5.0)]
    engine.dispose()
