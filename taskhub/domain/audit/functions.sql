-- Functions of the audit log: events for changes of tasks, the bytes that a seal covers, parts, and moves of the log.

-- The state of a task as an event stores it.
CREATE OR REPLACE FUNCTION th_shown(state text, message text, epoch int) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('state', state, 'message', message, 'epoch', epoch)
$$;

-- The digests that an event stores of a call. `arguments`: of its arguments. `definition`: of the tool's definition, as
-- offered to the caller (of a task) or as shown to people (of an approval). `came_along`: of the answers that came with
-- the call. `call`: of everything that people approve (th_call_digest).
CREATE OR REPLACE FUNCTION th_digests(arguments bytea, definition bytea, came_along jsonb DEFAULT NULL,
                                      call bytea DEFAULT NULL)
RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'arguments_sha256', encode(arguments, 'hex'), 'definition_sha256', encode(definition, 'hex'),
        'call_sha256', encode(call, 'hex'),
        'answers_sha256', encode(sha256(convert_to(came_along::text, 'UTF8')), 'hex')))
$$;

-- The verdict of the rules on a call (the column `task.decided`), as an event stores it; an empty object if the tenant
-- had no rules.
CREATE OR REPLACE FUNCTION th_decided(decided jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN decided IS NULL THEN '{}' ELSE jsonb_build_object('decided', decided - '{scopes,person}'::text[]) END
$$;

-- Trigger of `task`, for each statement: writes an event for each changed row, and sends hints. All events are written
-- by one INSERT, because starting an INSERT costs more than a further row in it. The setting `th.who` has the actor as
-- JSON; for a statement on behalf of several actors, its key "tasks" maps the public id of each task to its actor.
CREATE OR REPLACE FUNCTION task_record() RETURNS trigger LANGUAGE plpgsql
-- Otherwise a cached plan that was made for one row would compare every old row with every new one.
SET enable_nestloop = off AS $$
DECLARE
    who jsonb := coalesce(nullif(current_setting('th.who', true), ''), '{}')::jsonb;
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO event (tenant_id, task_id, task_version, action, actor, door, address, context_id, user_id,
                           target, reason, after)
        SELECT n.tenant_id, n.id, n.version, 'task.created', coalesce(w ->> 'name', session_user),
               coalesce(w ->> 'door', 'sql'), coalesce(w ->> 'address', ''),
               coalesce((w ->> 'context_id')::bigint, n.context_id), (w ->> 'user_id')::bigint,
               n.tool_name, left(coalesce(w ->> 'reason', ''), 1024), th_shown(n.state, n.message, n.lease_epoch)
               || th_digests(n.arguments_digest, n.tool_digest, n.answers) || th_decided(n.decided)
        FROM new_tasks n CROSS JOIN LATERAL (SELECT coalesce(who -> 'tasks' -> n.public_id, who)) AS actor(w)
        ORDER BY n.id;
    ELSE
        INSERT INTO event (tenant_id, task_id, task_version, action, actor, door, address, context_id, user_id,
                           target, reason, before, after)
        SELECT n.tenant_id, n.id, n.version, verb, coalesce(who ->> 'name', session_user),
               coalesce(who ->> 'door', 'sql'), coalesce(who ->> 'address', ''),
               coalesce((who ->> 'context_id')::bigint, n.context_id), (who ->> 'user_id')::bigint,
               n.tool_name, left(coalesce(who ->> 'reason', ''), 1024),
               jsonb_build_object('state', o.state), th_shown(n.state, n.message, n.lease_epoch)
        FROM new_tasks n JOIN old_tasks o ON o.id = n.id AND o.version <> n.version
        CROSS JOIN LATERAL (SELECT CASE
            WHEN n.state = 'working' AND o.state = 'queued' THEN 'task.claimed'
            WHEN n.state = 'input_required' AND o.state <> n.state THEN 'task.asked'
            -- With a lease, the task was given back by its worker: that is task.released, below.
            WHEN o.state = 'input_required' AND (n.state = 'working' OR n.state = 'queued' AND o.lease_until IS NULL)
                THEN 'task.answered'
            WHEN n.state = 'queued' AND o.state <> n.state THEN 'task.released'
            WHEN n.state <> o.state THEN 'task.' || n.state
            WHEN n.cancel_requested_at IS DISTINCT FROM o.cancel_requested_at THEN 'task.cancel.requested'
            END) AS news(verb)
        WHERE verb IS NOT NULL ORDER BY n.id;
    END IF;
    -- Python sends the hints of its changes right after the commit (domain/hints/announce.py), since with a NOTIFY
    -- inside the transaction every commit would wait for the fsync of every other. Hints of other changes, by psql or
    -- the sweep, are sent here.
    IF current_setting('th.hints', true) IS DISTINCT FROM 'app' THEN
        -- Made from the transition table: a join with `task` would read all of it, since nested loops are off.
        IF TG_OP = 'INSERT' THEN
            PERFORM pg_notify('taskhub', th_hint(ROW(t.*)::task)) FROM new_tasks t;
        ELSE
            PERFORM pg_notify('taskhub', th_hint(ROW(t.*)::task)) FROM new_tasks t JOIN old_tasks o ON o.id = t.id
                AND o.version <> t.version;
        END IF;
    END IF;
    RETURN NULL;
END $$;

-- Records that a bypass let a call pass, so that a reader of the log finds all such calls by the same action.
-- `p_permit` is the permit of a call that its client makes itself.
CREATE OR REPLACE FUNCTION th_bypassed(p_tenant bigint, p_task bigint, p_context bigint, p_target text, p_bypass jsonb,
                                       p_rule text, p_permit text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, user_id, target, after)
    VALUES (p_tenant, p_task, 'rules.bypassed', coalesce(th_who('name'), session_user), coalesce(th_who('door'), 'sql'),
            coalesce(th_who('address'), ''), p_context, th_who('user_id')::bigint, p_target,
            jsonb_strip_nulls(jsonb_build_object('bypass', p_bypass, 'rule', p_rule, 'permit', p_permit)))
$$;

-- Trigger of `task`, for each task that a bypass let pass. It is deferred to the commit, so that its event comes after
-- the event of the task itself.
CREATE OR REPLACE FUNCTION task_bypassed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM th_bypassed(NEW.tenant_id, NEW.id, NEW.context_id, NEW.tool_name, NEW.decided -> 'bypass',
                        NEW.decided ->> 'rule', NULL);
    RETURN NULL;
END $$;

-- Records a write under an old epoch that was refused, because its worker had lost the task.
CREATE OR REPLACE FUNCTION th_record_stale(p_id bigint, p_epoch int, p_what text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO event (tenant_id, task_id, action, actor, door, context_id, target, after)
    SELECT t.tenant_id, t.id, 'task.write.stale', coalesce(th_who('name'), session_user),
           coalesce(th_who('door'), 'sql'), t.context_id, t.tool_name,
           jsonb_build_object('write', p_what, 'epoch', p_epoch, 'current', t.lease_epoch, 'state', t.state)
    FROM task t WHERE t.id = p_id
$$;

-- An event as a line of text, whose bytes a seal covers and an archive keeps. This function must never change: a new
-- column needs a new function. STABLE like the functions that it calls, so that Postgres inlines it: it runs for every
-- event.
CREATE OR REPLACE FUNCTION event_line(e event) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array(
        e.id, e.tenant_id, e.task_id, e.task_version, e.action, e.actor, e.door, e.address, e.context_id,
        e.user_id, e.target, e.reason, e.before, e.after, extract(epoch FROM e.at), e.xid)::text
$$;

CREATE OR REPLACE FUNCTION event_digest(e event) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT sha256(convert_to(jsonb_build_array(
        e.id, e.tenant_id, e.task_id, e.task_version, e.action, e.actor, e.door, e.address, e.context_id,
        e.user_id, e.target, e.reason, e.before, e.after, extract(epoch FROM e.at), e.xid)::text, 'UTF8'))
$$;

-- The partitions of `event`, called parts, oldest first. A part has the ids in `[from_id, to_id)`.
CREATE OR REPLACE FUNCTION event_parts() RETURNS TABLE (name text, from_id bigint, to_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT c.relname::text, coalesce(substring(bound FROM $x$FROM \('?(-?\d+)$x$)::bigint, -9223372036854775808),
           substring(bound FROM $x$TO \('?(-?\d+)$x$)::bigint
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    CROSS JOIN LATERAL pg_get_expr(c.relpartbound, c.oid) AS bound
    WHERE i.inhparent = 'event'::regclass ORDER BY 2
$$;

-- Refuses TRUNCATE of a part, for which the trigger of `event` itself does not fire.
CREATE OR REPLACE FUNCTION event_part_guard(part text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE TRIGGER event_no_truncate BEFORE TRUNCATE ON %I'
                   ' FOR EACH STATEMENT EXECUTE FUNCTION append_only()', part);
END $$;

-- Creates parts of `size` ids ahead of their use, until there are two above the part that is written to. If the part
-- that is written to has events from an earlier month, and at least `fewest` events, lets further events go to the next
-- part, and returns that part's name. Otherwise returns null.
CREATE OR REPLACE FUNCTION event_part_turn(size bigint, fewest bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    last bigint;
    part record;
    next record;
    top record;
    made text;
BEGIN
    PERFORM pg_advisory_xact_lock(7225941807011218);
    last := (SELECT last_value FROM event_id_seq);
    WHILE (SELECT count(*) FROM event_parts() p WHERE p.from_id > last) < 2 LOOP
        SELECT p.* INTO top FROM event_parts() p ORDER BY p.to_id DESC LIMIT 1;
        made := 'event_' || substring(top.name FROM '\d+$')::int + 1;
        EXECUTE format('CREATE TABLE %I (LIKE event INCLUDING DEFAULTS)', made);
        PERFORM event_part_guard(made);
        -- Unlike CREATE TABLE with PARTITION OF, ATTACH PARTITION does not block writes to `event`.
        EXECUTE format('ALTER TABLE event ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', made, top.to_id,
                       top.to_id + size);
    END LOOP;
    SELECT p.* INTO part FROM event_parts() p WHERE last >= p.from_id AND last < p.to_id;
    -- At most once a month. Not near the end of the part: there the sequence may have passed into the next part
    -- meanwhile, and setval would let ids be used again.
    IF last < part.to_id - size / 100 AND EXISTS (
        SELECT 1 FROM (SELECT e.id, e.at FROM event e WHERE e.id >= part.from_id ORDER BY e.id LIMIT 1) AS first
        WHERE last - first.id >= fewest - 1
          AND date_trunc('month', first.at, 'UTC') < date_trunc('month', clock_timestamp(), 'UTC')) THEN
        SELECT p.* INTO next FROM event_parts() p WHERE p.from_id = part.to_id;
        PERFORM setval('event_id_seq', next.from_id, false);
        RETURN next.name;
    END IF;
    RETURN NULL;
END $$;

-- Drops the oldest part, whose events are archived, and deletes the archived seals, except for the last one, to which
-- the next seal is linked. Raises TH008 if it is not the oldest part, or if events are still written to it.
CREATE OR REPLACE FUNCTION event_part_drop(part text, sealed_below bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    oldest record;
BEGIN
    PERFORM pg_advisory_xact_lock(7225941807011218);
    SELECT p.* INTO oldest FROM event_parts() p ORDER BY p.from_id LIMIT 1;
    IF oldest.name IS DISTINCT FROM part OR (SELECT last_value FROM event_id_seq) < oldest.to_id THEN
        RAISE EXCEPTION '% is not the oldest part of the log, or written to', part USING ERRCODE = 'TH008';
    END IF;
    DELETE FROM seal WHERE to_xid < sealed_below;
    EXECUTE format('DROP TABLE %I', part);
END $$;

-- Trigger of `seal`: refuses to delete seals that the log does not say are archived, and the last archived seal.
CREATE OR REPLACE FUNCTION seal_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT max(to_xid) FROM gone) >= (SELECT coalesce(max((e.after ->> 'to_xid')::bigint), 0) FROM event e
                                          WHERE e.tenant_id IS NULL AND e.action = 'audit.archived') THEN
        RAISE EXCEPTION 'seal is append-only: DELETE refused' USING ERRCODE = 'TH008';
    END IF;
    RETURN NULL;
END $$;

-- The system identifier of the Postgres cluster. `initdb` and `pg_upgrade` make a new one; a copy of the data directory
-- keeps it. Empty if the role may not call pg_control_system().
CREATE OR REPLACE FUNCTION cluster() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT c.system_identifier FROM pg_control_system() c)::text;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN '';
END $$;

-- The shift in an event's position (event.xid), which is the id of its transaction plus the shift. 0 until the database
-- is moved into a cluster whose transaction ids count from the beginning again. The column's default holds it, so that
-- a dump includes it.
CREATE OR REPLACE FUNCTION event_shift() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(substring(pg_get_expr(d.adbin, d.adrelid) FROM $x$\+ '(\d+)'$x$)::bigint, 0)
    FROM pg_attribute a JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = 'event'::regclass AND a.attname = 'xid'
$$;

-- Raises the shift after a move, so that further events get positions behind all events of the old cluster. Also moves
-- the `late` events: those that were written in the new cluster at positions below `sealed_to`. Only their positions
-- change, and no seal covers them yet. Events with ids up to `top` were written in the old cluster. Returns the new
-- shift, and number, first id and last id of the late events.
CREATE OR REPLACE FUNCTION event_moved(sealed_to bigint, top bigint)
RETURNS TABLE (shift bigint, late bigint, first bigint, last bigint) LANGUAGE plpgsql AS $$
DECLARE
    behind bigint;
    more bigint;
BEGIN
    LOCK TABLE event IN ACCESS EXCLUSIVE MODE;
    SELECT greatest(sealed_to, (SELECT max(s.to_xid) FROM seal s), max(e.xid) + 1) INTO behind
    FROM event e WHERE e.xid >= sealed_to;
    SELECT count(*), min(e.id), max(e.id), greatest(0, behind - least(
        min(e.xid), pg_current_xact_id()::text::bigint + event_shift()))
    INTO late, first, last, more FROM event e WHERE e.xid < sealed_to AND e.id > top;
    shift := event_shift() + more;
    IF behind > 4611686018427387904 THEN
        RAISE EXCEPTION 'no cluster counts to %', behind USING ERRCODE = 'TH008';
    END IF;
    IF more > 0 THEN
        ALTER TABLE event DISABLE TRIGGER event_append_only;
        UPDATE event e SET xid = e.xid + more WHERE e.xid < sealed_to AND e.id > top;
        ALTER TABLE event ENABLE TRIGGER event_append_only;
        EXECUTE format('ALTER TABLE event ALTER COLUMN xid SET DEFAULT pg_current_xact_id()::text::bigint + %L::bigint',
                       shift);
    END IF;
    RETURN NEXT;
END $$;
