-- The guards: what no statement may do, whoever sends it. SQLSTATEs:
--   TH001 immutable column   TH002 terminal task      TH003 illegal transition
--   TH004 lease epoch        TH005 cancel request     TH006 closed question
--   TH007 input_required <> open question             TH008 append-only table
-- The pairs repeat taskhub.core.states.PAIRS; a test compares the two.

CREATE FUNCTION th_who(part text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT nullif(current_setting('th.who', true), '')::jsonb ->> part
$$;

CREATE FUNCTION task_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state NOT IN ('queued', 'input_required') THEN
            RAISE EXCEPTION 'a task is born queued or input_required, not %', NEW.state USING ERRCODE = 'TH003';
        END IF;
        IF NEW.public_id !~ '^[A-Za-z0-9_-]{22,64}$' THEN
            RAISE EXCEPTION 'public_id must be 22 to 64 url-safe characters' USING ERRCODE = 'TH001';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.id, NEW.public_id, NEW.tenant_id, NEW.context_id, NEW.tool_id, NEW.tool_name, NEW.revision,
        NEW.arguments_digest, NEW.created_at)
       IS DISTINCT FROM
       (OLD.id, OLD.public_id, OLD.tenant_id, OLD.context_id, OLD.tool_id, OLD.tool_name, OLD.revision,
        OLD.arguments_digest, OLD.created_at)
       OR NEW.arguments IS DISTINCT FROM OLD.arguments
       OR NEW.idempotency_key IS DISTINCT FROM OLD.idempotency_key THEN
        RAISE EXCEPTION 'identity, owner, tool and arguments of a task never change' USING ERRCODE = 'TH001';
    END IF;
    IF OLD.ended_at IS NOT NULL AND
       (NEW.state, NEW.message, NEW.result, NEW.error, NEW.is_error, NEW.ended_at, NEW.lease_epoch,
        NEW.lease_until, NEW.progress, NEW.total, NEW.cancel_requested_at, NEW.upstream_state)
       IS DISTINCT FROM
       (OLD.state, OLD.message, OLD.result, OLD.error, OLD.is_error, OLD.ended_at, OLD.lease_epoch,
        OLD.lease_until, OLD.progress, OLD.total, OLD.cancel_requested_at, OLD.upstream_state) THEN
        RAISE EXCEPTION 'task % is %: nothing about it changes any more', OLD.public_id, OLD.state
            USING ERRCODE = 'TH002';
    END IF;
    IF NEW.state <> OLD.state AND (OLD.state || '>' || NEW.state) NOT IN (
        'queued>working', 'queued>input_required', 'queued>faulted', 'queued>cancelled',
        'working>queued', 'working>input_required', 'working>finished', 'working>faulted',
        'working>cancelled',
        'input_required>queued', 'input_required>working', 'input_required>finished',
        'input_required>faulted', 'input_required>cancelled'
    ) THEN
        RAISE EXCEPTION 'a task cannot go from % to %', OLD.state, NEW.state USING ERRCODE = 'TH003';
    END IF;
    IF NEW.lease_epoch < OLD.lease_epoch OR NEW.lease_epoch > OLD.lease_epoch + 1 THEN
        RAISE EXCEPTION 'lease_epoch goes from % to % only', OLD.lease_epoch, OLD.lease_epoch + 1
            USING ERRCODE = 'TH004';
    END IF;
    IF OLD.cancel_requested_at IS NOT NULL THEN
        IF NEW.cancel_requested_at IS DISTINCT FROM OLD.cancel_requested_at THEN
            RAISE EXCEPTION 'a cancel request is made once and stays' USING ERRCODE = 'TH005';
        END IF;
        IF NEW.state = 'working' AND OLD.state = 'queued' THEN
            RAISE EXCEPTION 'a task with a cancel request is not claimed' USING ERRCODE = 'TH005';
        END IF;
    END IF;
    -- However it ends, its owner has at least an hour to read how.
    IF NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL AND NEW.expires_at < NEW.ended_at + interval '1 hour' THEN
        NEW.expires_at := NEW.ended_at + interval '1 hour';
        NEW.ttl_ms := least(2592000000, (extract(epoch FROM NEW.expires_at - NEW.created_at) * 1000)::bigint);
    END IF;
    -- Polling marks and ttl slides are not changes that a client sees as news. One question more is,
    -- and no column shows it: who asks counts the version up.
    IF (OLD.ended_at IS NULL AND NEW.version = OLD.version + 1)
       OR (NEW.state, NEW.message, NEW.progress, NEW.total, NEW.cancel_requested_at, NEW.lease_epoch)
       IS DISTINCT FROM
       (OLD.state, OLD.message, OLD.progress, OLD.total, OLD.cancel_requested_at, OLD.lease_epoch) THEN
        NEW.version := OLD.version + 1;
        NEW.updated_at := greatest(clock_timestamp(), OLD.updated_at);
    ELSIF (NEW.version, NEW.updated_at) IS DISTINCT FROM (OLD.version, OLD.updated_at) THEN
        RAISE EXCEPTION 'version and updated_at mark visible changes and nothing else' USING ERRCODE = 'TH001';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER task_guard BEFORE INSERT OR UPDATE ON task FOR EACH ROW EXECUTE FUNCTION task_guard();

-- A hint about a task: what kind of news, and ids only.
CREATE FUNCTION th_hint(t task) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT concat_ws(' ', CASE WHEN t.state = 'queued' THEN 'r'
                               WHEN t.cancel_requested_at IS NOT NULL AND t.ended_at IS NULL THEN 'x'
                               ELSE 't' END, t.tenant_id, t.context_id, t.id, t.public_id)
$$;

-- What an event keeps of a task.
CREATE FUNCTION th_shown(state text, message text, epoch int) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('state', state, 'message', message, 'epoch', epoch)
$$;

-- History and hints: an event for each changed row, written once for all that a statement changed,
-- because starting an INSERT costs more than a row. `th.who` is the actor; a statement on behalf of
-- several names each under "tasks", by public id.
CREATE FUNCTION task_record() RETURNS trigger LANGUAGE plpgsql
-- Without it, a plan made for one row would compare every old row with every new one.
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
            -- A queued task whose lease was still held came back from its worker instead.
            WHEN o.state = 'input_required' AND (n.state = 'working' OR n.state = 'queued' AND o.lease_until IS NULL)
                THEN 'task.answered'
            WHEN n.state = 'queued' AND o.state <> n.state THEN 'task.released'
            WHEN n.state <> o.state THEN 'task.' || n.state
            WHEN n.cancel_requested_at IS DISTINCT FROM o.cancel_requested_at THEN 'task.cancel.requested'
            END) AS news(verb)
        WHERE verb IS NOT NULL ORDER BY n.id;
    END IF;
    -- The application announces its own changes right after the commit (lifecycle/hints.py): a
    -- NOTIFY inside would make every commit wait for every other's fsync. Anybody else's change,
    -- from psql or the sweep, is announced here.
    IF current_setting('th.hints', true) IS DISTINCT FROM 'app' THEN
        IF TG_OP = 'INSERT' THEN
            PERFORM pg_notify('taskhub', th_hint(n)) FROM new_tasks t JOIN task n ON n.id = t.id;
        ELSE
            PERFORM pg_notify('taskhub', th_hint(n)) FROM new_tasks t JOIN old_tasks o ON o.id = t.id
                AND o.version <> t.version JOIN task n ON n.id = t.id;
        END IF;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER task_record_new AFTER INSERT ON task REFERENCING NEW TABLE AS new_tasks
    FOR EACH STATEMENT EXECUTE FUNCTION task_record();
CREATE TRIGGER task_record AFTER UPDATE ON task REFERENCING OLD TABLE AS old_tasks NEW TABLE AS new_tasks
    FOR EACH STATEMENT EXECUTE FUNCTION task_record();

-- A question is closed once; what was asked never changes.
CREATE FUNCTION question_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state <> 'open' OR
       (NEW.task_id, NEW.tenant_id, NEW.key, NEW.kind, NEW.params::text, NEW.audience, NEW."group", NEW.quorum, NEW.opened_at)
       IS DISTINCT FROM
       (OLD.task_id, OLD.tenant_id, OLD.key, OLD.kind, OLD.params::text, OLD.audience, OLD."group", OLD.quorum, OLD.opened_at)
    THEN
        RAISE EXCEPTION 'question % is % and stays as it is', OLD.key, OLD.state USING ERRCODE = 'TH006';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER question_guard BEFORE UPDATE ON question FOR EACH ROW EXECUTE FUNCTION question_guard();

-- input_required if and only if a question is open, at commit. Locking the task is what
-- makes it hold: without it two answers to two questions each see the other still open.
CREATE FUNCTION input_required_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    subject bigint;
    found_state text;
    open_questions bigint;
BEGIN
    IF TG_TABLE_NAME = 'task' THEN
        subject := NEW.id;
    ELSIF TG_OP = 'DELETE' THEN
        subject := OLD.task_id;
    ELSE
        subject := NEW.task_id;
    END IF;
    SELECT state INTO found_state FROM task WHERE id = subject FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT count(*) INTO open_questions FROM question WHERE task_id = subject AND state = 'open';
    IF (found_state = 'input_required') <> (open_questions > 0) THEN
        RAISE EXCEPTION 'task % is % with % open questions', subject, found_state, open_questions
            USING ERRCODE = 'TH007';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER question_matches_task AFTER INSERT OR UPDATE OR DELETE ON question
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION input_required_check();
CREATE CONSTRAINT TRIGGER task_matches_questions AFTER UPDATE ON task
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state AND (OLD.state = 'input_required' OR NEW.state = 'input_required'))
    EXECUTE FUNCTION input_required_check();
CREATE CONSTRAINT TRIGGER task_born_with_questions AFTER INSERT ON task
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 'input_required')
    EXECUTE FUNCTION input_required_check();

CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'TH008';
END $$;

CREATE TRIGGER event_append_only BEFORE UPDATE OR DELETE ON event FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON event FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER seal_append_only BEFORE UPDATE OR DELETE ON seal FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER seal_no_truncate BEFORE TRUNCATE ON seal FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER decision_append_only BEFORE UPDATE ON decision FOR EACH ROW EXECUTE FUNCTION append_only();

-- What hangs on a task goes with it and never alone.
CREATE FUNCTION goes_with_its_parent() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'decision' AND EXISTS (SELECT 1 FROM question WHERE id = (to_jsonb(OLD) ->> 'question_id')::bigint)
       OR TG_TABLE_NAME = 'question' AND EXISTS (SELECT 1 FROM task WHERE id = (to_jsonb(OLD) ->> 'task_id')::bigint) THEN
        RAISE EXCEPTION '% is deleted with its task only', TG_TABLE_NAME USING ERRCODE = 'TH008';
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER decision_stays BEFORE DELETE ON decision FOR EACH ROW EXECUTE FUNCTION goes_with_its_parent();
CREATE TRIGGER question_stays BEFORE DELETE ON question FOR EACH ROW EXECUTE FUNCTION goes_with_its_parent();

-- A live task is never deleted; purge removes ended ones.
CREATE FUNCTION task_delete_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.ended_at IS NULL THEN
        RAISE EXCEPTION 'task % is live and cannot be deleted', OLD.public_id USING ERRCODE = 'TH002';
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER task_delete_guard BEFORE DELETE ON task FOR EACH ROW EXECUTE FUNCTION task_delete_guard();

-- The bytes a seal covers. Versioned: a later column gets a later function.
CREATE FUNCTION event_digest_v1(e event) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT sha256(convert_to(jsonb_build_array(
        e.id, e.tenant_id, e.task_id, e.task_version, e.action, e.actor, e.door, e.address, e.context_id,
        e.user_id, e.target, e.reason, e.before, e.after, extract(epoch FROM e.at), e.xid)::text, 'UTF8'))
$$;

ALTER TABLE access_token ADD CONSTRAINT access_token_digest_is_sha256 CHECK ((octet_length(digest) = 32) IS TRUE);
ALTER TABLE task ADD CONSTRAINT task_error_is_jsonrpc CHECK (
    error IS NULL OR (jsonb_typeof(error::jsonb -> 'code') = 'number'
                      AND jsonb_typeof(error::jsonb -> 'message') = 'string') IS TRUE);

-- Django cascades in Python only. Purge is one DELETE, so the database must do it: what hangs on a
-- task goes with it, and a re-run forgets the task it came from.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN
        SELECT c.conname, c.conrelid::regclass AS child, c.confrelid::regclass AS parent, a.attname AS col
        FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        WHERE c.contype = 'f' AND c.confrelid IN ('task'::regclass, 'question'::regclass)
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', f.child, f.conname);
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I FOREIGN KEY (%I) REFERENCES %s (id) ON DELETE %s'
                       ' DEFERRABLE INITIALLY DEFERRED', f.child, f.conname, f.col, f.parent,
                       CASE WHEN f.col = 'rerun_of_id' THEN 'SET NULL' ELSE 'CASCADE' END);
    END LOOP;
END $$;
CREATE INDEX task_rerun_of ON task (rerun_of_id) WHERE rerun_of_id IS NOT NULL;
