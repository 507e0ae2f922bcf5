-- The creation of tasks. domain/tasks/create.py calls it, and documents what it promises.

-- Creates the tasks of p_wanted (the columns of new tasks; n numbers them) in one statement. If the context has used a
-- key before, no task is made for it: the row names the earlier task, with r_existed, and with r_reused if the key was
-- used for another call.
-- `worker`: this worker, a web process, would run the call in place. It gets the task with a lease if a worker could
-- claim it now without a second look (claim_tasks): the call may run (th_why_not, th_unconfirmed), the rules need not
-- decide again (th_to_decide), its client has room (per_context, share), its server takes calls and has none waiting,
-- and no other worker has a session for it. The row says so by r_in_place. Any other task is queued.
CREATE OR REPLACE FUNCTION create_tasks(p_wanted json, p_who text)
RETURNS TABLE (r_n int, r_existed boolean, r_reused boolean, r_id bigint, r_created_at timestamptz, r_in_place boolean)
-- The settings keep a plan that was made for an empty table from being slow later: as in claim_tasks, the front of the
-- queue is read from its index and not sorted.
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    made record;
    look constant int := 20;
    in_place int[] := '{}';
    begun bigint[] := '{}';
    queued boolean := false;
    missing int[] := '{}';
BEGIN
    PERFORM set_config('th.who', p_who, true);
    IF EXISTS (SELECT FROM json_to_recordset(p_wanted) AS i(worker text) WHERE i.worker IS NOT NULL) THEN
        WITH wanted AS MATERIALIZED (
            SELECT * FROM json_to_recordset(p_wanted) AS i(
                n int, tenant bigint, context bigint, tool bigint, tool_digest text, decided jsonb, questions json,
                worker text, per_context int, share int)
        ), before AS MATERIALIZED (
            -- The front of the queue. If there are more, those behind it may be for any server.
            SELECT o.server_id FROM (
                SELECT t.tool_id FROM task t WHERE t.state = 'queued' AND t.runnable_at <= statement_timestamp()
                ORDER BY t.runnable_at, t.id LIMIT look) q
            JOIN tool o ON o.id = q.tool_id
        ), fit AS (
            SELECT w.n, w.worker, w.per_context, w.share, w.context,
                   row_number() OVER (PARTITION BY w.context ORDER BY w.n) AS turn
            FROM wanted w JOIN tool o ON o.id = w.tool JOIN server s ON s.id = o.server_id
            JOIN auth_context c ON c.id = w.context
            WHERE w.worker IS NOT NULL AND w.questions IS NULL
              AND th_why_not(s, o, c) IS NULL AND NOT th_unconfirmed(s, o) AND o.gone_at IS NULL
              AND s.enabled AND s.open_since IS NULL
              AND NOT th_to_decide(w.tenant, w.context, nullif(w.decided, 'null'),
                                   decode(nullif(w.tool_digest, ''), 'hex'), o.digest)
              AND (SELECT count(*) FROM before) < look
              AND NOT EXISTS (SELECT FROM before b WHERE b.server_id = s.id)
              AND NOT EXISTS (SELECT FROM upstream_session u WHERE u.server_id = s.id AND u.context_id = w.context
                              AND u.ended_at IS NULL AND u.worker <> w.worker AND th_lives(u.worker))
        ), rooms AS MATERIALIZED (
            SELECT k.worker, r.context_id, r.room
            FROM (SELECT DISTINCT f.worker, f.per_context, f.share FROM fit f) k
            CROSS JOIN LATERAL th_rooms(k.worker, k.per_context, k.share) r
        )
        SELECT coalesce(array_agg(f.n), '{}') INTO in_place
        FROM fit f LEFT JOIN rooms r ON r.worker = f.worker AND r.context_id = f.context
        WHERE f.turn <= coalesce(r.room, least(f.per_context, f.share));
    END IF;
    FOR made IN
        WITH wanted AS MATERIALIZED (
            SELECT *, i.n = ANY (in_place) AS placed FROM json_to_recordset(p_wanted) AS i(
                n int, public_id text, tenant bigint, context bigint, tool bigint, tool_name text, revision text,
                arguments text, digest text, tool_digest text, answers jsonb, decided jsonb, questions json, message text,
                ttl_ms bigint, poll_ms int, key text, client_info jsonb, client_capabilities jsonb, trace jsonb,
                rerun_of bigint, max_attempts int, at_least_once boolean, run_seconds int,
                session bigint, request_id text, progress_token text, handle boolean, client_task_id text,
                keep_ms bigint, join_seconds int, waiter text, worker text, lease_seconds float8)
        ), made AS (
            INSERT INTO task (public_id, tenant_id, context_id, tool_id, tool_name, revision, arguments,
                              arguments_digest, tool_digest, answers, decided, state, message, ttl_ms, expires_at,
                              poll_interval_ms, idempotency_key, client_info, client_capabilities, trace, rerun_of_id,
                              max_attempts, at_least_once, run_seconds, session_id, request_id, progress_token, handle,
                              client_task_id, keep_ms, join_seconds, waiter, created_at, updated_at, lease_epoch, worker,
                              lease_until)
            SELECT public_id, tenant, context, tool, tool_name, revision, arguments::json, decode(digest, 'hex'),
                   decode(nullif(tool_digest, ''), 'hex'), answers, nullif(decided, 'null'),
                   CASE WHEN questions IS NOT NULL THEN 'input_required'
                        WHEN placed THEN 'working' ELSE 'queued' END, message, ttl_ms,
                   clock_timestamp() + ttl_ms * interval '1 millisecond', poll_ms, key, client_info,
                   client_capabilities, trace, rerun_of, max_attempts, at_least_once, run_seconds,
                   session, request_id, progress_token, handle, client_task_id, keep_ms, join_seconds, waiter,
                   statement_timestamp(), statement_timestamp(), placed::int, CASE WHEN placed THEN worker ELSE '' END,
                   CASE WHEN placed THEN clock_timestamp() + make_interval(secs => lease_seconds) END
            -- In the same order in every transaction: otherwise two batches could deadlock on each other's keys.
            FROM wanted ORDER BY context, key, n
            ON CONFLICT (context_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
            RETURNING id, public_id, created_at, worker
        )
        SELECT w.n, w.tenant, w.questions, m.id, m.created_at, m.worker <> '' AS in_place
        FROM wanted w LEFT JOIN made m ON m.public_id = w.public_id
    LOOP
        IF made.id IS NULL THEN
            missing := missing || made.n;
            CONTINUE;
        END IF;
        IF made.in_place THEN
            begun := begun || made.id;
        ELSIF made.questions IS NULL THEN
            queued := true;
        ELSE
            PERFORM th_open_questions(made.id, made.tenant, made.questions, false);
        END IF;
        RETURN QUERY SELECT made.n, false, false, made.id, made.created_at, made.in_place;
    END LOOP;
    IF cardinality(begun) > 0 THEN
        INSERT INTO attempt (task_id, number, worker, started_at)
        SELECT t.id, t.lease_epoch, t.worker, clock_timestamp() FROM task t WHERE t.id = ANY (begun);
    END IF;
    IF queued THEN
        PERFORM th_wake_workers();
    END IF;
    IF cardinality(missing) > 0 THEN
        -- The transactions that made the earlier tasks have committed: the unique index made this one wait for them.
        RETURN QUERY
            SELECT i.n, true, t.arguments_digest <> decode(i.digest, 'hex') OR t.tool_id <> i.tool, t.id, t.created_at,
                   false
            FROM json_to_recordset(p_wanted) AS i(n int, context bigint, tool bigint, digest text, key text)
            JOIN task t ON t.context_id = i.context AND t.idempotency_key = i.key WHERE i.n = ANY (missing);
    END IF;
END $$;

-- How many live tasks the context has. The settings and ORDER BY leave the planner no index but that of live tasks. A
-- plan made while there were few tasks could otherwise take another, whose cost seems the same then, and read all tasks
-- that the client ever had.
CREATE OR REPLACE FUNCTION th_live_tasks(p_context bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
BEGIN
    RETURN (SELECT count(*) FROM (
        SELECT FROM task t WHERE t.context_id = p_context AND t.ended_at IS NULL ORDER BY t.arguments_digest
    ) AS live);
END $$;

-- The open approvals of the context, and how many of them are of the session or, if p_session is null, of the trace (''
-- for none). Settings and ORDER BY as in th_live_tasks. The live tasks come first, since a client has few: a plan made
-- while there were few open questions would begin with all of those.
CREATE OR REPLACE FUNCTION th_open_approvals(p_context bigint, p_session bigint, p_trace text)
RETURNS TABLE (of_context bigint, of_conversation bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
BEGIN
    RETURN QUERY SELECT count(*), count(*) FILTER (WHERE live.alongside) FROM (
        SELECT t.id, coalesce(CASE WHEN p_session IS NULL
                                   THEN p_trace <> '' AND t.session_id IS NULL
                                        AND split_part(t.trace ->> 'traceparent', '-', 2) = p_trace
                                   ELSE t.session_id = p_session END, false) AS alongside
        FROM task t
        WHERE t.context_id = p_context AND t.ended_at IS NULL AND t.state = 'input_required' ORDER BY t.arguments_digest
    ) AS live CROSS JOIN LATERAL (
        SELECT q.id FROM question q WHERE q.task_id = live.id AND q.state = 'open' AND q.kind = 'approval' OFFSET 0
    ) AS o;
END $$;
