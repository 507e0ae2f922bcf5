"""The audit log in parts, by id: one that is old can be written to a file and dropped, which no DELETE of millions
could do. The table there is becomes the first part as it stands, however long it is: it is read once, beside what runs,
to see that its ids are below the part's end."""

from __future__ import annotations

from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from taskhub.store.deadline import unhurried

SIZE = 100_000_000
_INDEXES = ("by_task", "by_transaction", "newest", "newest_by_action", "pkey")

_BOUND = """
DO $$
DECLARE
    last bigint := (SELECT coalesce(max(id), 0) FROM event);
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conname = 'event_1_ends') THEN
        -- Ten million ids may be taken meanwhile.
        EXECUTE format('ALTER TABLE event ADD CONSTRAINT event_1_ends CHECK (id < %s) NOT VALID',
                       ((last + 10000000) / SIZE + 1) * SIZE);
    END IF;
END $$
""".replace("SIZE", str(SIZE))

_DIVIDE = """
DO $$
DECLARE
    ends text;
    first bigint;
BEGIN
    -- Before all else, since nobody may take an id between here and the new sequence.
    LOCK TABLE event IN ACCESS EXCLUSIVE MODE;
    ends := (SELECT substring(pg_get_constraintdef(oid) FROM '\\d+') FROM pg_constraint WHERE conname = 'event_1_ends');
    first := nextval('event_id_seq');
    DROP TRIGGER IF EXISTS event_append_only ON event;
    ALTER TABLE event ALTER id DROP IDENTITY;
    ALTER TABLE event RENAME TO event_1;
    CREATE TABLE event (LIKE event_1 INCLUDING DEFAULTS) PARTITION BY RANGE (id);
    EXECUTE format('CREATE SEQUENCE event_id_seq START %s OWNED BY event.id', first);
    ALTER TABLE event ALTER id SET DEFAULT nextval('event_id_seq');
    ALTER TABLE event_1 ALTER id SET DEFAULT nextval('event_id_seq');
    ALTER TABLE event ADD CONSTRAINT event_pkey PRIMARY KEY (id);
    CREATE INDEX event_by_task ON event (task_id, id) WHERE task_id IS NOT NULL;
    CREATE INDEX event_by_transaction ON event (xid, id);
    CREATE INDEX event_newest ON event (tenant_id, id DESC);
    CREATE INDEX event_newest_by_action ON event (tenant_id, action, id DESC);
    EXECUTE format('ALTER TABLE event ATTACH PARTITION event_1 FOR VALUES FROM (MINVALUE) TO (%s)', ends);
    ALTER TABLE event_1 DROP CONSTRAINT event_1_ends;
    IF to_regproc('event_digest_v1') IS NOT NULL THEN
        -- What seals and verifies meanwhile calls it with a row of the new table.
        DROP FUNCTION event_digest_v1(event_1);
        CREATE FUNCTION event_digest_v1(e event) RETURNS bytea LANGUAGE sql STABLE AS $digest$
            SELECT sha256(convert_to(jsonb_build_array(
                e.id, e.tenant_id, e.task_id, e.task_version, e.action, e.actor, e.door, e.address, e.context_id,
                e.user_id, e.target, e.reason, e.before, e.after, extract(epoch FROM e.at), e.xid)::text, 'UTF8'))
        $digest$;
        CREATE TRIGGER event_append_only BEFORE UPDATE OR DELETE ON event FOR EACH ROW EXECUTE FUNCTION append_only();
        CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON event FOR EACH STATEMENT EXECUTE FUNCTION append_only();
    END IF;
END $$
"""


def bound(apps: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Say below which id all of it is, and see that this is so."""
    with unhurried(schema_editor.connection), schema_editor.connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute(_BOUND)
        cursor.execute("ALTER TABLE event VALIDATE CONSTRAINT event_1_ends")


def divide(apps: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Make it the first part of a table in parts."""
    with schema_editor.connection.cursor() as cursor:
        for name in _INDEXES:
            cursor.execute(f"ALTER INDEX event_{name} RENAME TO event_1_{name}")
        cursor.execute(_DIVIDE)


class Migration(migrations.Migration):
    atomic = False  # the second step alone is one transaction

    dependencies = [("store", "0025_arguments_as_they_came")]

    operations = [
        migrations.RunPython(bound, elidable=False),
        migrations.RunPython(divide, atomic=True, elidable=False),
    ]
