-- Sessions of the 2025 wires: what a task keeps of its session, what a stream carries, what a client
-- is asked. Functions are versioned by name and never edited after a release.

DROP VIEW IF EXISTS task_view;
DROP FUNCTION IF EXISTS create_tasks_v1(json, text);

-- What every projection reads, as one row. `open_questions` is null when nothing is open.
CREATE VIEW task_view AS
SELECT t.id, t.public_id, t.tenant_id, t.context_id, t.revision, t.state, t.message, t.progress, t.total,
       t.created_at, t.updated_at, t.ended_at, t.ttl_ms, t.poll_interval_ms, t.result, t.error, t.is_error,
       t.cancel_requested_at, t.version, t.tool_name, t.expires_at, t.session_id, t.progress_token, t.handle,
       t.client_task_id, t.keep_ms,
       CASE WHEN t.state = 'input_required' THEN (
           SELECT json_agg(json_build_object(
                      'id', q.id, 'key', q.key, 'kind', q.kind, 'params', q.params, 'audience', q.audience,
                      'group', q."group", 'quorum', q.quorum,
                      'approvals', (SELECT count(*) FROM decision d
                                    WHERE d.question_id = q.id AND d.verdict = 'approve'))
                  ORDER BY q.id)
           FROM question q WHERE q.task_id = t.id AND q.state = 'open') END AS open_questions
FROM task t;

-- Makes the tasks of p_wanted (what a task is born with; n numbers them) durable, in one statement
-- for all of them. A key that its context used before makes nothing: the row names the earlier task
-- and r_existed, or r_reused when that was another call.
CREATE FUNCTION create_tasks_v2(p_wanted json, p_who text)
RETURNS TABLE (r_n int, r_existed boolean, r_reused boolean, r_id bigint, r_created_at timestamptz)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    made record;
    queued boolean := false;
    missing int[] := '{}';
BEGIN
    PERFORM set_config('th.who', p_who, true);
    FOR made IN
        WITH wanted AS MATERIALIZED (
            SELECT * FROM json_to_recordset(p_wanted) AS i(
                n int, public_id text, tenant bigint, context bigint, tool bigint, tool_name text, revision text,
                arguments jsonb, digest text, answers jsonb, questions json, message text, ttl_ms bigint, poll_ms int,
                key text, client_info jsonb, client_capabilities jsonb, trace jsonb, rerun_of bigint,
                max_attempts int, at_least_once boolean, run_seconds int,
                session bigint, request_id text, progress_token text, handle boolean, client_task_id text, keep_ms bigint)
        ), made AS (
            INSERT INTO task (public_id, tenant_id, context_id, tool_id, tool_name, revision, arguments,
                              arguments_digest, answers, state, message, ttl_ms, expires_at, poll_interval_ms,
                              idempotency_key, client_info, client_capabilities, trace, rerun_of_id, max_attempts,
                              at_least_once, run_seconds, session_id, request_id, progress_token, handle,
                              client_task_id, keep_ms, created_at, updated_at)
            SELECT public_id, tenant, context, tool, tool_name, revision, arguments, decode(digest, 'hex'), answers,
                   CASE WHEN questions IS NULL THEN 'queued' ELSE 'input_required' END, message, ttl_ms,
                   clock_timestamp() + ttl_ms * interval '1 millisecond', poll_ms, key, client_info,
                   client_capabilities, trace, rerun_of, max_attempts, at_least_once, run_seconds,
                   session, request_id, progress_token, handle, client_task_id, keep_ms, statement_timestamp(), statement_timestamp()
            -- In one order for everybody, or two batches could wait for each other's keys.
            FROM wanted ORDER BY context, key, n
            ON CONFLICT (context_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
            RETURNING id, public_id, created_at
        )
        SELECT w.n, w.tenant, w.questions, m.id, m.created_at FROM wanted w LEFT JOIN made m ON m.public_id = w.public_id
    LOOP
        IF made.id IS NULL THEN
            missing := missing || made.n;
            CONTINUE;
        END IF;
        IF made.questions IS NULL THEN
            queued := true;
        ELSE
            PERFORM th_open_questions(made.id, made.tenant, made.questions, false);
        END IF;
        RETURN QUERY SELECT made.n, false, false, made.id, made.created_at;
    END LOOP;
    IF queued THEN
        PERFORM th_wake_workers();
    END IF;
    IF cardinality(missing) > 0 THEN
        -- Whoever made them has committed, because the index made us wait.
        RETURN QUERY
            SELECT i.n, true, t.arguments_digest <> decode(i.digest, 'hex') OR t.tool_id <> i.tool, t.id, t.created_at
            FROM json_to_recordset(p_wanted) AS i(n int, context bigint, tool bigint, digest text, key text)
            JOIN task t ON t.context_id = i.context AND t.idempotency_key = i.key WHERE i.n = ANY (missing);
    END IF;
END $$;

-- A task of SEP-1686 is kept for a time from its end, not from its creation (T1686-16).
CREATE FUNCTION task_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.expires_at := NEW.ended_at + NEW.keep_ms * interval '1 millisecond';
    RETURN NEW;
END $$;

CREATE TRIGGER task_keep BEFORE UPDATE ON task FOR EACH ROW
    WHEN (NEW.keep_ms IS NOT NULL AND OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL)
    EXECUTE FUNCTION task_keep();

-- Whoever runs a cancelled task must hear of it, also where the cancellation ended it at once.
CREATE OR REPLACE FUNCTION th_hint(t task) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT concat_ws(' ', CASE WHEN t.state = 'queued' THEN 'r'
                               WHEN t.cancel_requested_at IS NOT NULL AND (t.ended_at IS NULL OR t.state = 'cancelled') THEN 'x'
                               ELSE 't' END, t.tenant_id, t.context_id, t.id, t.public_id)
$$;

-- Ends the task as cancelled before it returns, also where a worker runs it: what the worker does from
-- here on is dropped. Returns 'unknown', the state it had ended in before, or 'cancelled'.
CREATE FUNCTION cancel_now_v1(p_id bigint, p_who text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT state, lease_epoch, lease_until, cancel_requested_at, ended_at INTO held FROM task WHERE id = p_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    IF held.ended_at IS NOT NULL THEN
        RETURN held.state;
    END IF;
    UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = p_id AND state = 'open';
    UPDATE task SET state = 'cancelled', ended_at = clock_timestamp(), lease_until = NULL, upstream_state = NULL,
           cancel_requested_at = coalesce(held.cancel_requested_at, clock_timestamp()),
           message = CASE WHEN held.lease_until IS NULL THEN 'Cancelled before it ran' ELSE 'Cancelled while it ran' END
    WHERE id = p_id;
    PERFORM th_close_attempt(p_id, held.lease_epoch, 'cancelled', '');
    RETURN '';
END $$;

-- The client answered a question with an error: the call fails with it (CH-05). Returns what
-- became of it: 'answered', 'late' or 'unknown', as answer_v1.
CREATE FUNCTION refuse_v1(p_task bigint, p_key text, p_error text, p_message text, p_who text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    held record;
    asked record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT tenant_id, context_id, tool_name, lease_epoch INTO held FROM task WHERE id = p_task FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    SELECT state, kind INTO asked FROM question WHERE task_id = p_task AND key = p_key;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    IF asked.state <> 'open' THEN
        RETURN 'late';
    END IF;
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, target, reason, after)
    VALUES (held.tenant_id, p_task, 'question.refused', coalesce(th_who('name'), session_user),
            coalesce(th_who('door'), 'sql'), coalesce(th_who('address'), ''), held.context_id, held.tool_name,
            left(p_message, 1024), jsonb_build_object('key', p_key, 'kind', asked.kind));
    UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = p_task AND state = 'open';
    UPDATE task SET state = 'faulted', error = p_error, message = left(p_message, 1024), ended_at = clock_timestamp(),
           lease_until = NULL, upstream_state = NULL WHERE id = p_task;
    PERFORM th_close_attempt(p_task, held.lease_epoch, 'faulted', p_message);
    RETURN 'answered';
END $$;

-- A session for the context; beyond p_most live ones, the longest unused end.
CREATE FUNCTION start_session_v1(p_public_id text, p_tenant bigint, p_context bigint, p_version text,
                                 p_client_info jsonb, p_client_capabilities jsonb, p_most int) RETURNS bigint
LANGUAGE sql AS $$
    UPDATE session SET ended_at = clock_timestamp() WHERE id = ANY (ARRAY(
        SELECT id FROM session WHERE context_id = p_context AND ended_at IS NULL
        ORDER BY seen_at DESC OFFSET p_most - 1 FOR UPDATE SKIP LOCKED));
    INSERT INTO session (public_id, tenant_id, context_id, version, client_info, client_capabilities)
    VALUES (p_public_id, p_tenant, p_context, p_version, p_client_info, p_client_capabilities) RETURNING id
$$;

-- Whether somebody serves the stream: its process counts `seen_at` up while it does.
CREATE FUNCTION th_served(s stream) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT s.attached AND s.closed_at IS NULL AND s.seen_at > clock_timestamp() - interval '25 seconds'
$$;

-- What the stream is to send now, and from here on is the one to send (B25-15): requests of its task,
-- or for a session's own stream those of all its tasks that no other stream waits for. One that is
-- open elsewhere comes along when that stream is gone, or (p_first) when this one has just been
-- opened: the newest stream of a task, or of a session, is where the client listens, and a stream whose
-- process was killed looks served for a while. Not what the session's own stream has sent already: a
-- client that then asks for the result would be asked twice. After p_after only: what a stream that is
-- taken up again has sent before. No row: the stream has ended, or is served elsewhere.
-- The first row has no id. It says whether the stream is 'active': of a session's own streams only the
-- newest is, so that nothing is said twice; and, where something is due later, in how many seconds.
CREATE FUNCTION deliver_v1(p_stream bigint, p_attach int, p_first boolean, p_after bigint)
RETURNS TABLE (r_id bigint, r_method text, r_params text) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    mine stream;
    tasks bigint[];
    taken record;
BEGIN
    SELECT s.* INTO mine FROM stream s JOIN session e ON e.id = s.session_id
    WHERE s.id = p_stream AND s.attach = p_attach AND NOT s.cancelled AND s.closed_at IS NULL AND e.ended_at IS NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF mine.seen_at < clock_timestamp() - interval '5 seconds' THEN
        UPDATE stream SET seen_at = clock_timestamp() WHERE id = p_stream;
    END IF;
    r_method := CASE WHEN mine.kind = 'listen' AND EXISTS (
        SELECT 1 FROM stream s WHERE s.session_id = mine.session_id AND s.kind = 'listen' AND s.id > p_stream AND th_served(s))
        THEN 'idle' ELSE 'active' END;
    IF r_method = 'idle' THEN
        RETURN NEXT;
        RETURN;
    END IF;
    IF mine.kind = 'listen' THEN
        tasks := ARRAY(SELECT t.id FROM task t WHERE t.session_id = mine.session_id AND t.state = 'input_required'
                       AND NOT EXISTS (SELECT 1 FROM stream w WHERE w.task_id = t.id AND th_served(w)));
    ELSE
        tasks := ARRAY[mine.task_id];
    END IF;
    SELECT extract(epoch FROM min(o.due_at) - clock_timestamp())::text INTO r_params FROM outbound o
    WHERE o.state = 'open' AND o.due_at > clock_timestamp() AND o.task_id = ANY (tasks);
    RETURN NEXT;
    IF p_first THEN
        UPDATE outbound o SET stream_id = p_stream, sent_at = NULL FROM stream s
        WHERE o.state = 'open' AND o.task_id = ANY (tasks) AND s.id = o.stream_id AND s.id <> p_stream
          AND (mine.kind <> 'listen' OR s.kind = 'listen')
          AND NOT (mine.kind <> 'listen' AND s.kind = 'listen' AND s.session_id = mine.session_id
                   AND o.sent_at IS NOT NULL AND th_served(s));
    END IF;
    FOR taken IN
        SELECT o.id, o.stream_id FROM outbound o LEFT JOIN stream s ON s.id = o.stream_id
        WHERE o.state = 'open' AND o.due_at <= clock_timestamp() AND o.task_id = ANY (tasks)
          AND CASE WHEN o.stream_id = p_stream THEN o.sent_at IS NULL OR p_first AND o.id > p_after
                   ELSE o.stream_id IS NULL OR NOT th_served(s) END
        ORDER BY o.id
    LOOP
        -- Another stream may have been quicker: then the row has changed and is not ours.
        UPDATE outbound o SET stream_id = p_stream, sent_at = clock_timestamp() FROM question q
        WHERE o.id = taken.id AND o.state = 'open' AND o.stream_id IS NOT DISTINCT FROM taken.stream_id AND q.id = o.question_id AND q.state = 'open'
        RETURNING o.id, o.method, o.params::text INTO r_id, r_method, r_params;
        IF FOUND THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;

-- Django cascades in Python only; a purge is one DELETE.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN
        SELECT c.conname, c.conrelid::regclass AS child, c.confrelid::regclass AS parent, a.attname AS col, a.attnotnull
        FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        WHERE c.contype = 'f' AND (c.conrelid IN ('stream'::regclass, 'outbound'::regclass)
                                   OR c.confrelid = 'session'::regclass)
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', f.child, f.conname);
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I FOREIGN KEY (%I) REFERENCES %s (id) ON DELETE %s'
                       ' DEFERRABLE INITIALLY DEFERRED', f.child, f.conname, f.col, f.parent,
                       CASE WHEN f.col IN ('stream_id', 'session_id') AND NOT f.attnotnull THEN 'SET NULL'
                            ELSE 'CASCADE' END);
    END LOOP;
END $$;
