-- The changes of a task, one function each: lock, check, change, record once. Python calls
-- them from taskhub/lifecycle; the promise of each stands there. Functions are versioned by
-- name and never edited after a release.

CREATE FUNCTION th_open_questions(p_task bigint, p_tenant bigint, p_questions json, p_live boolean)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO question (task_id, tenant_id, key, upstream_key, kind, params, audience, "group", quorum, live, due_at)
    SELECT p_task, p_tenant, q ->> 'key', coalesce(q ->> 'upstream_key', ''), q ->> 'kind', q -> 'params',
           q ->> 'audience', coalesce(q ->> 'group', ''), coalesce((q ->> 'quorum')::int, 1), p_live,
           clock_timestamp() + make_interval(secs => coalesce((q ->> 'due_seconds')::float8, 86400))
    FROM json_array_elements(p_questions) q
$$;

-- The durable wake-up: one job is enough for any number of waiting tasks, because a worker
-- that runs it claims everything runnable. A burst therefore costs one job. Should a task
-- commit just after a worker fetched the job it relied on, the hint in its own transaction
-- wakes the worker, and the sweep finds it in any case.
CREATE FUNCTION th_wake_workers() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM procrastinate_jobs
                   WHERE status = 'todo' AND queue_name = 'taskhub' AND task_name = 'taskhub.run') THEN
        PERFORM procrastinate_defer_jobs_v1(ARRAY[ROW('taskhub', 'taskhub.run', 0, NULL, NULL, '{}'::jsonb,
            clock_timestamp() + interval '1 second')]::procrastinate_job_to_defer_v1[]);
    END IF;
END $$;

-- Whether a worker holds the task. Not spelled `IS NOT NULL`: a plan would then look for the one
-- task in the index of leases, which seems tiny and is full of dead entries, and not by its id.
CREATE FUNCTION th_held(lease_until timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(lease_until, '-infinity') > '-infinity'
$$;

-- At most p_limit runnable tasks become this worker's. Tasks locked by somebody else are
-- skipped; a context that already runs p_per_context tasks waits its turn. `r_more` tells whether
-- more could run as soon as a task ends; where nothing was taken, a row of nulls says it.
-- `r_since` is where the next claim may start (p_since): what is still queued is not older. A drained
-- backlog leaves pages of dead entries at the start of the index until the next vacuum, and every
-- claim would walk over all of them. Now and then a claim must start from the beginning (null), for
-- what was locked or committed late.
CREATE FUNCTION claim_tasks_v1(p_worker text, p_limit int, p_lease_seconds float8, p_per_context int,
                               p_since timestamptz, p_who text)
RETURNS TABLE (id bigint, public_id text, epoch int, tenant_id bigint, server_id bigint, server_name text,
               tool_id bigint, upstream_tool text, arguments text, answers text, upstream_state text,
               client_capabilities text, trace text, question_audience text, run_seconds int,
               r_more boolean, r_since timestamptz)
-- Its plan may be made, and kept, while the table is still empty: never a whole scan. And no
-- bitmap scan, because only a plain index scan marks the entries of ended leases as dead.
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    chosen bigint[] := '{}';
    batch bigint[];
    seen bigint;
    latest timestamptz;
    full_contexts bigint[];
    more boolean;
    start timestamptz := coalesce(p_since - interval '1 second', '-infinity');
BEGIN
    PERFORM set_config('th.who', p_who, true);
    LOOP
        -- What each context runs is counted once per round, not once per candidate.
        -- Ordered and compared by lease_until, so that the scan stays on the index of leases.
        WITH leased AS MATERIALIZED (
            SELECT context_id FROM task WHERE lease_until > '-infinity' ORDER BY lease_until
        ), held AS MATERIALIZED (
            SELECT context_id, count(*) AS running FROM leased GROUP BY context_id
        ), full_up AS MATERIALIZED (
            SELECT context_id FROM held WHERE running >= p_per_context
        ), free AS MATERIALIZED (
            SELECT t.id, t.context_id, t.runnable_at FROM task t
            WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL
              AND t.runnable_at BETWEEN start AND clock_timestamp() AND t.context_id NOT IN (SELECT context_id FROM full_up)
            ORDER BY t.runnable_at, t.id LIMIT p_limit - cardinality(chosen) FOR UPDATE OF t SKIP LOCKED
        ), placed AS (
            SELECT f.id, f.runnable_at, coalesce(h.running, 0)
                   + row_number() OVER (PARTITION BY f.context_id ORDER BY f.runnable_at, f.id) AS place
            FROM free f LEFT JOIN held h ON h.context_id = f.context_id
        )
        SELECT array_agg(p.id) FILTER (WHERE p.place <= p_per_context), count(*), max(p.runnable_at),
               (SELECT array_agg(context_id) FROM full_up)
        INTO batch, seen, latest, full_contexts FROM placed p;
        EXIT WHEN batch IS NULL;
        UPDATE task SET state = 'working', lease_epoch = lease_epoch + 1, worker = p_worker, message = '',
               lease_until = clock_timestamp() + make_interval(secs => p_lease_seconds)
        WHERE task.id = ANY (batch);
        chosen := chosen || batch;
        -- Look again only where a context's own limit left room for others.
        EXIT WHEN cardinality(batch) = seen OR cardinality(chosen) >= p_limit;
    END LOOP;
    more := cardinality(chosen) >= p_limit OR full_contexts IS NOT NULL AND EXISTS (
        SELECT 1 FROM task t WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL
            AND t.runnable_at <= clock_timestamp() AND t.context_id = ANY (full_contexts));
    IF cardinality(chosen) = 0 THEN
        IF more THEN
            r_more := true;
            RETURN NEXT;
        END IF;
        RETURN;
    END IF;
    INSERT INTO attempt (task_id, number, worker, started_at)
    SELECT t.id, t.lease_epoch, p_worker, clock_timestamp() FROM task t WHERE t.id = ANY (chosen);
    RETURN QUERY
        SELECT t.id, t.public_id::text, t.lease_epoch, t.tenant_id, s.id, s.name::text, o.id, o.name::text,
               t.arguments::text,
               -- answers of the call itself, then those given to the questions of the latest round
               (coalesce(t.answers, '{}') || coalesce((
                   SELECT jsonb_object_agg(q.upstream_key, q.response::jsonb) FROM question q
                   WHERE q.task_id = t.id AND q.state = 'answered' AND q.upstream_key <> ''
                     AND NOT q.live AND q.id IN (
                         SELECT max(l.id) FROM question l WHERE l.task_id = t.id AND l.state = 'answered'
                         GROUP BY l.upstream_key)), '{}'))::text,
               t.upstream_state::text, t.client_capabilities::text, t.trace::text, o.question_audience::text,
               t.run_seconds, more,
               CASE WHEN full_contexts IS NULL AND cardinality(batch) = seen THEN latest END
        FROM task t JOIN tool o ON o.id = t.tool_id JOIN server s ON s.id = o.server_id
        WHERE t.id = ANY (chosen) ORDER BY t.id;
END $$;

-- Lengthens the leases this worker holds; tells which of them are wanted cancelled. A task
-- that is not in the answer is no longer this worker's.
CREATE FUNCTION renew_leases_v1(p_worker text, p_ids bigint[], p_epochs int[], p_lease_seconds float8)
RETURNS TABLE (id bigint, cancel_requested boolean) LANGUAGE sql SET enable_seqscan = off AS $$
    UPDATE task t SET lease_until = clock_timestamp() + make_interval(secs => p_lease_seconds)
    FROM unnest(p_ids, p_epochs) AS held(id, epoch)
    WHERE t.id = held.id AND t.lease_epoch = held.epoch AND t.worker = p_worker AND th_held(t.lease_until)
    RETURNING t.id, t.cancel_requested_at IS NOT NULL
$$;

CREATE FUNCTION note_v1(p_id bigint, p_epoch int, p_lines jsonb, p_keep int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    latest jsonb;
BEGIN
    SELECT l INTO latest FROM jsonb_array_elements(p_lines) WITH ORDINALITY AS e(l, n)
    WHERE l ->> 'level' = 'progress' ORDER BY n DESC LIMIT 1;
    -- The lines go first: whoever reads the task after the hint finds them.
    PERFORM 1 FROM task WHERE id = p_id AND lease_epoch = p_epoch AND th_held(lease_until) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF (SELECT count(*) FROM task_log WHERE task_id = p_id) < p_keep THEN
        INSERT INTO task_log (task_id, level, text, progress, total, at)
        SELECT p_id, l ->> 'level', left(l ->> 'text', 4096), (l ->> 'progress')::float8, (l ->> 'total')::float8,
               clock_timestamp()
        FROM jsonb_array_elements(p_lines) l;
    END IF;
    IF latest IS NOT NULL THEN
        UPDATE task SET progress = (latest ->> 'progress')::float8, total = (latest ->> 'total')::float8,
               message = left(coalesce(nullif(latest ->> 'text', ''), message), 1024)
        WHERE id = p_id;
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION th_close_attempt(p_id bigint, p_epoch int, p_outcome text, p_error text) RETURNS void
LANGUAGE sql AS $$
    UPDATE attempt SET ended_at = clock_timestamp(), outcome = p_outcome, error = p_error
    WHERE task_id = p_id AND number = p_epoch AND ended_at IS NULL
$$;

-- A write that came too late leaves a trace and nothing else.
CREATE FUNCTION th_record_stale(p_id bigint, p_epoch int, p_what text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO event (tenant_id, task_id, action, actor, door, context_id, target, after)
    SELECT t.tenant_id, t.id, 'task.write.stale', coalesce(th_who('name'), session_user),
           coalesce(th_who('door'), 'sql'), t.context_id, t.tool_name,
           jsonb_build_object('write', p_what, 'epoch', p_epoch, 'current', t.lease_epoch, 'state', t.state)
    FROM task t WHERE t.id = p_id
$$;

-- The tools of p_ended are done: an array of {id, epoch, result, is_error, message}. Returns the ids of
-- the tasks that are finished now; one that is missing was not this worker's any more. One statement
-- for all of them: opening the table's indexes and reading its CHECKs costs more than a row.
CREATE FUNCTION finish_tasks_v1(p_ended json, p_who text) RETURNS SETOF bigint
-- As in claim_tasks_v1, a plan made for an empty table must not hurt later.
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    ended record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    FOR ended IN
        WITH given AS MATERIALIZED (
            SELECT * FROM json_to_recordset(p_ended)
                AS i(id bigint, epoch int, result text, is_error boolean, message text)
        ), held AS MATERIALIZED (
            -- In one order for everybody, or two batches could wait for each other.
            SELECT g.*, t.state FROM given g JOIN task t ON t.id = g.id
            WHERE t.lease_epoch = g.epoch AND th_held(t.lease_until) ORDER BY t.id FOR UPDATE OF t
        ), unanswered AS (
            UPDATE question q SET state = 'superseded', closed_at = clock_timestamp() FROM held h
            WHERE h.state = 'input_required' AND q.task_id = h.id AND q.state = 'open'
        ), closed AS (
            UPDATE attempt a SET ended_at = clock_timestamp(), outcome = 'finished', error = '' FROM held h
            WHERE a.task_id = h.id AND a.number = h.epoch AND a.ended_at IS NULL
        ), finished AS (
            UPDATE task t SET state = 'finished', result = h.result, is_error = h.is_error,
                   message = left(h.message, 1024), ended_at = clock_timestamp(), lease_until = NULL,
                   upstream_state = NULL
            FROM held h WHERE t.id = h.id RETURNING t.id
        )
        SELECT g.id, g.epoch, f.id IS NOT NULL AS done FROM given g LEFT JOIN finished f ON f.id = g.id
    LOOP
        IF ended.done THEN
            RETURN NEXT ended.id;
        ELSE
            PERFORM th_record_stale(ended.id, ended.epoch, 'finish');
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION fault_v1(p_id bigint, p_epoch int, p_error text, p_message text, p_who text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('th.who', p_who, true);
    PERFORM 1 FROM task WHERE id = p_id AND lease_epoch = p_epoch AND th_held(lease_until) FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM th_record_stale(p_id, p_epoch, 'fault');
        RETURN false;
    END IF;
    UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = p_id AND state = 'open';
    UPDATE task SET state = 'faulted', error = p_error, message = left(p_message, 1024),
           ended_at = clock_timestamp(), lease_until = NULL, upstream_state = NULL
    WHERE id = p_id;
    PERFORM th_close_attempt(p_id, p_epoch, 'faulted', p_message);
    RETURN true;
END $$;

-- The worker stopped a task whose cancellation was asked for.
CREATE FUNCTION settle_cancel_v1(p_id bigint, p_epoch int, p_message text, p_who text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('th.who', p_who, true);
    PERFORM 1 FROM task WHERE id = p_id AND lease_epoch = p_epoch AND th_held(lease_until)
        AND cancel_requested_at IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = p_id AND state = 'open';
    UPDATE task SET state = 'cancelled', message = left(p_message, 1024), ended_at = clock_timestamp(),
           lease_until = NULL, upstream_state = NULL WHERE id = p_id;
    PERFORM th_close_attempt(p_id, p_epoch, 'cancelled', '');
    RETURN true;
END $$;

-- Gives a task back: the server was not there, or the worker stops. A tool that had started and
-- may not run twice is faulted instead, so that a person decides.
CREATE FUNCTION release_v1(p_id bigint, p_epoch int, p_started boolean, p_delay_seconds float8, p_reason text, p_who text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT at_least_once, cancel_requested_at INTO held FROM task
    WHERE id = p_id AND lease_epoch = p_epoch AND th_held(lease_until) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = p_id AND state = 'open';
    IF held.cancel_requested_at IS NOT NULL THEN
        -- Nobody would take it again, and nobody would end it.
        UPDATE task SET state = 'cancelled', lease_until = NULL, ended_at = clock_timestamp(), upstream_state = NULL,
               message = CASE WHEN p_started THEN 'Cancelled; the tool did not confirm that it stopped'
                              ELSE 'Cancelled before it ran' END
        WHERE id = p_id;
        PERFORM th_close_attempt(p_id, p_epoch, 'cancelled', p_reason);
        RETURN true;
    END IF;
    IF p_started AND NOT held.at_least_once THEN
        UPDATE task SET state = 'faulted', lease_until = NULL, ended_at = clock_timestamp(), upstream_state = NULL,
               message = 'The worker was stopped while the tool ran: outcome unknown',
               error = '{"code":-32603,"message":"The worker was stopped while the tool ran: outcome unknown","data":{"reason":"outcome_unknown"}}'
        WHERE id = p_id;
        PERFORM th_close_attempt(p_id, p_epoch, 'lost', p_reason);
        RETURN true;
    END IF;
    UPDATE task SET state = 'queued', lease_until = NULL, worker = '', message = left(p_reason, 1024),
           runnable_at = clock_timestamp() + make_interval(secs => p_delay_seconds) WHERE id = p_id;
    PERFORM th_close_attempt(p_id, p_epoch, 'released', p_reason);
    PERFORM th_wake_workers();
    RETURN true;
END $$;

-- Opens questions. Parked (p_live false): the lease ends and the tool is called again with
-- the answers. Live: the tool itself waits in the worker, which keeps its lease.
CREATE FUNCTION ask_v1(p_id bigint, p_epoch int, p_questions json, p_upstream_state text, p_message text,
                       p_live boolean, p_who text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    owner record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT tenant_id, cancel_requested_at INTO owner FROM task
    WHERE id = p_id AND lease_epoch = p_epoch AND th_held(lease_until) AND ended_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM th_record_stale(p_id, p_epoch, 'ask');
        RETURN false;
    END IF;
    IF owner.cancel_requested_at IS NOT NULL AND NOT p_live THEN
        -- The tool has stopped to ask; with the answers it would not be called again.
        UPDATE question SET state = 'superseded', closed_at = clock_timestamp()
        WHERE task_id = p_id AND state = 'open';
        UPDATE task SET state = 'cancelled', message = 'Cancelled while it ran', ended_at = clock_timestamp(),
               lease_until = NULL, upstream_state = NULL WHERE id = p_id;
        PERFORM th_close_attempt(p_id, p_epoch, 'cancelled', '');
        RETURN true;
    END IF;
    PERFORM th_open_questions(p_id, owner.tenant_id, p_questions, p_live);
    UPDATE task SET state = 'input_required', message = left(p_message, 1024), version = version + 1,
           upstream_state = CASE WHEN p_live THEN upstream_state ELSE p_upstream_state END,
           lease_until = CASE WHEN p_live THEN lease_until END
    WHERE id = p_id;
    IF NOT p_live THEN
        PERFORM th_close_attempt(p_id, p_epoch, 'asked', '');
    END IF;
    RETURN true;
END $$;

-- Stores one answer. Returns what became of it: 'answered', 'counted' (an approval below the
-- quorum), 'late' (the question was closed before), 'twice' (this person decided already) or
-- 'unknown'. First valid answer wins: the task row is locked first by everybody.
CREATE FUNCTION answer_v1(p_task bigint, p_key text, p_response text, p_verdict text, p_reason text,
                          p_user bigint, p_context bigint, p_final_result text, p_who text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    owner record;
    asked record;
    left_open bigint;
    held boolean;
    approvals bigint;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT id, state, lease_until, arguments_digest, tenant_id, context_id, tool_name, version INTO owner
    FROM task WHERE id = p_task FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    SELECT id, state, quorum, kind, live, "group" INTO asked FROM question WHERE task_id = p_task AND key = p_key;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    IF asked.state <> 'open' THEN
        RETURN 'late';
    END IF;
    IF p_user IS NOT NULL AND EXISTS (SELECT 1 FROM decision WHERE question_id = asked.id AND user_id = p_user) THEN
        RETURN 'twice';
    END IF;
    INSERT INTO decision (question_id, actor, user_id, context_id, verdict, reason, arguments_digest, door, at)
    VALUES (asked.id, coalesce(th_who('name'), session_user), p_user, p_context, p_verdict, left(p_reason, 1024),
            owner.arguments_digest, coalesce(th_who('door'), 'sql'), clock_timestamp());
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, user_id, target, reason, after)
    VALUES (owner.tenant_id, owner.id, 'question.' || p_verdict, coalesce(th_who('name'), session_user),
            coalesce(th_who('door'), 'sql'), coalesce(th_who('address'), ''), owner.context_id, p_user,
            owner.tool_name, left(p_reason, 1024), jsonb_build_object('key', p_key, 'kind', asked.kind));
    IF asked.kind = 'approval' AND p_verdict = 'approve' THEN
        SELECT count(*) INTO approvals FROM decision WHERE question_id = asked.id AND verdict = 'approve';
        IF approvals < asked.quorum THEN
            UPDATE task SET message = 'Waiting for approval'
                || CASE WHEN asked."group" <> '' THEN ' by ' || asked."group" ELSE '' END
                || ', ' || approvals || ' of ' || asked.quorum
            WHERE id = p_task;
            RETURN 'counted';
        END IF;
    END IF;
    UPDATE question SET state = 'answered', response = p_response, closed_at = clock_timestamp() WHERE id = asked.id;
    IF p_final_result IS NOT NULL THEN
        -- An approver said no: the tool never runs, the caller reads why.
        UPDATE question SET state = 'superseded', closed_at = clock_timestamp()
        WHERE task_id = p_task AND state = 'open';
        UPDATE task SET state = 'finished', result = p_final_result, is_error = true, ended_at = clock_timestamp(),
               message = left(p_reason, 1024) WHERE id = p_task;
        RETURN 'answered';
    END IF;
    SELECT count(*) INTO left_open FROM question WHERE task_id = p_task AND state = 'open';
    IF left_open = 0 THEN
        held := owner.lease_until IS NOT NULL;
        UPDATE task SET state = CASE WHEN held THEN 'working' ELSE 'queued' END, message = '',
               runnable_at = clock_timestamp() WHERE id = p_task;
        IF NOT held THEN
            PERFORM th_wake_workers();
        END IF;
    ELSE
        UPDATE task SET message = left_open || ' more answers needed' WHERE id = p_task;
    END IF;
    RETURN 'answered';
END $$;

-- Records the wish. A task nobody runs ends at once; a running one is told through its lease.
-- Returns the state after: 'unknown' when there is no such task.
CREATE FUNCTION request_cancel_v1(p_id bigint, p_who text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT state, lease_until, cancel_requested_at, ended_at INTO held FROM task WHERE id = p_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    IF held.ended_at IS NOT NULL OR held.cancel_requested_at IS NOT NULL THEN
        RETURN held.state;
    END IF;
    IF held.lease_until IS NULL THEN
        UPDATE question SET state = 'superseded', closed_at = clock_timestamp()
        WHERE task_id = p_id AND state = 'open';
        UPDATE task SET state = 'cancelled', cancel_requested_at = clock_timestamp(), ended_at = clock_timestamp(),
               message = 'Cancelled before it ran' , upstream_state = NULL WHERE id = p_id;
        RETURN 'cancelled';
    END IF;
    UPDATE task SET cancel_requested_at = clock_timestamp(), message = 'Cancel requested' WHERE id = p_id;
    RETURN held.state;
END $$;

-- Everything that time alone brings about; run often, by anybody. Returns how many tasks changed.
CREATE FUNCTION sweep_v1(p_grace_seconds float8, p_limit int, p_who text) RETURNS int LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    t record;
    changed int := 0;
BEGIN
    PERFORM set_config('th.who', p_who, true), set_config('th.hints', '', true);
    -- Leases that ran out, and cancelled tools that did not stop within the grace period.
    FOR t IN
        SELECT id, lease_epoch, crashes, max_attempts, at_least_once, cancel_requested_at, lease_until < clock_timestamp() AS lost
        FROM task
        WHERE lease_until IS NOT NULL
          AND (lease_until < clock_timestamp()
               OR cancel_requested_at < clock_timestamp() - make_interval(secs => p_grace_seconds))
        ORDER BY lease_until LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        changed := changed + 1;
        UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = t.id AND state = 'open';
        IF t.cancel_requested_at IS NOT NULL THEN
            UPDATE task SET state = 'cancelled', message = 'Cancelled; the tool did not confirm that it stopped',
                   ended_at = clock_timestamp(), lease_until = NULL, upstream_state = NULL WHERE id = t.id;
            PERFORM th_close_attempt(t.id, t.lease_epoch, 'cancelled', '');
        ELSIF t.at_least_once AND t.crashes + 1 < t.max_attempts THEN
            UPDATE task SET state = 'queued', crashes = crashes + 1, lease_until = NULL, worker = '',
                   message = 'The worker was lost; queued to run again', runnable_at = clock_timestamp()
            WHERE id = t.id;
            PERFORM th_close_attempt(t.id, t.lease_epoch, 'lost', 'the lease ran out');
            PERFORM th_wake_workers();
        ELSE
            UPDATE task SET state = 'faulted', crashes = crashes + 1, lease_until = NULL, ended_at = clock_timestamp(),
                   message = 'The worker was lost while the tool ran: outcome unknown', upstream_state = NULL,
                   error = json_build_object('code', -32603, 'message',
                       CASE WHEN t.at_least_once THEN 'The worker was lost ' || t.max_attempts || ' times: outcome unknown'
                            ELSE 'The worker was lost while the tool ran: outcome unknown' END,
                       'data', json_build_object('reason', 'outcome_unknown'))::text
            WHERE id = t.id;
            PERFORM th_close_attempt(t.id, t.lease_epoch, 'lost', 'the lease ran out');
        END IF;
    END LOOP;
    -- Questions nobody answered in time.
    FOR t IN
        SELECT id, lease_epoch FROM task WHERE state = 'input_required' AND EXISTS (
            SELECT 1 FROM question q WHERE q.task_id = task.id AND q.state = 'open' AND q.due_at < clock_timestamp())
        LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        changed := changed + 1;
        UPDATE question SET state = CASE WHEN due_at < clock_timestamp() THEN 'expired' ELSE 'superseded' END,
               closed_at = clock_timestamp() WHERE task_id = t.id AND state = 'open';
        UPDATE task SET state = 'faulted', lease_until = NULL, ended_at = clock_timestamp(), upstream_state = NULL,
               message = 'Nobody answered in time',
               error = '{"code":-32603,"message":"Nobody answered in time","data":{"reason":"input_timeout"}}'
        WHERE id = t.id;
        PERFORM th_close_attempt(t.id, t.lease_epoch, 'faulted', 'input timeout');
    END LOOP;
    -- The time to live slides while people are being waited for.
    UPDATE task SET expires_at = clock_timestamp() + interval '1 hour',
           ttl_ms = least(2592000000, (extract(epoch FROM clock_timestamp() + interval '1 hour' - created_at) * 1000)::bigint)
    WHERE id = ANY (ARRAY(
        SELECT id FROM task WHERE state = 'input_required' AND ttl_ms IS NOT NULL
            AND expires_at < clock_timestamp() + interval '30 minutes' LIMIT p_limit FOR UPDATE SKIP LOCKED));
    -- Past its time and never run: it will not be.
    FOR t IN
        SELECT id FROM task WHERE state = 'queued' AND expires_at < clock_timestamp() LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        changed := changed + 1;
        UPDATE task SET state = 'faulted', ended_at = clock_timestamp(), message = 'Expired before a worker took it',
               error = '{"code":-32603,"message":"Expired before a worker took it","data":{"reason":"expired"}}'
        WHERE id = t.id;
    END LOOP;
    -- Runnable tasks always have a wake-up.
    IF EXISTS (SELECT 1 FROM task WHERE state = 'queued' AND runnable_at < clock_timestamp() - interval '5 seconds') THEN
        PERFORM pg_notify('taskhub', 'w');
        PERFORM th_wake_workers();
    END IF;
    RETURN changed;
END $$;
