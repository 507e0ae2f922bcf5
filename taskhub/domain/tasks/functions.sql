-- The changes of a task, one function each: lock, check, change, record once. The modules beside this file call these
-- functions and document what each promises.

-- A hint about a task: the kind of news, and ids only. The letters are those of core/hints.py: r queued, x cancelled, t
-- any other change. It is x also if the cancellation ended the task at once, since its worker must stop.
-- STABLE, as `concat_ws` is: otherwise the function would not be inlined.
CREATE OR REPLACE FUNCTION th_hint(t task) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT concat_ws(' ', CASE WHEN t.state = 'queued' THEN 'r'
                               WHEN t.cancel_requested_at IS NOT NULL
                                    AND (t.ended_at IS NULL OR t.state = 'cancelled') THEN 'x'
                               ELSE 't' END, t.tenant_id, t.context_id, t.id, t.public_id)
$$;

-- The error of a task that the hub itself ends, as JSON text: a sentence for people and a code for programs.
CREATE OR REPLACE FUNCTION th_error(message text, reason text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT json_build_object('code', -32603, 'message', message, 'data', json_build_object('reason', reason))::text
$$;

-- The message of a task that waits for approvals, the same as that of core.words.waiting_for_approval.
CREATE OR REPLACE FUNCTION th_waiting_for_approval("group" text, counted bigint, quorum int) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN "group" <> '' THEN th_words('waiting_approval_by', "group", counted::text, quorum::text)
                ELSE th_words('waiting_approval', counted::text, quorum::text) END
$$;

-- Whether a worker holds the task with this lease; null means that none does.
CREATE OR REPLACE FUNCTION th_held(lease_until timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(lease_until, '-infinity') > '-infinity'
$$;

-- Defers the job that wakes workers, unless one waits already. One job is enough for any number of tasks, because the
-- worker that runs it claims everything runnable; a burst therefore costs one job. A task may commit just after a
-- worker has fetched the job: then the task's own hint wakes the worker, and otherwise the sweep finds the task.
CREATE OR REPLACE FUNCTION th_wake_workers() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM procrastinate_jobs
                   WHERE status = 'todo' AND queue_name = 'taskhub' AND task_name = 'taskhub.run') THEN
        PERFORM procrastinate_defer_jobs_v1(ARRAY[ROW('taskhub', 'taskhub.run', 0, NULL, NULL, '{}'::jsonb,
            clock_timestamp() + interval '1 second')]::procrastinate_job_to_defer_v1[]);
    END IF;
END $$;

-- The message of a task with edited arguments that is live or was cancelled: the names of these arguments come first,
-- because there is no result that tells of them.
CREATE OR REPLACE FUNCTION th_edited_message(t task) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT left(concat_ws('. ', th_words('edited', (
        SELECT string_agg(n.name, ', ') FROM json_array_elements_text(t.edited -> 'names') AS n(name))), nullif(
        CASE WHEN t.state = 'queued' THEN coalesce((
            SELECT th_words('paused', s.name) FROM tool o JOIN server s ON s.id = o.server_id
            WHERE o.id = t.tool_id AND NOT s.enabled AND s.removed_at IS NULL), t.message)
             ELSE t.message END, '')), 1024)
$$;

-- The row that every projection of a task reads. `open_questions` is null if no question is open. The message that a
-- server is disabled is made here and not stored, since the server may have many queued calls.
-- `page`: whether the client is to be asked to open the console's page of a question that only people answer, as long
-- as it has not answered that request. Outside of sessions a program with the default name of the Python SDK or FastMCP
-- is not asked: the SDK declares url mode for every program that answers forms, and a program that fails at a page
-- would lose its call. In a session it would lose nothing.
-- `by_tool`: whether a form for the client alone is answered with the hub's own tool, since it comes from a plain call
-- whose client takes no forms (`can_answer` in domain/questions/kinds.py).
-- `offered`: whether the client was asked in a round to open the page, and has not answered. A later round does not ask
-- again.
CREATE OR REPLACE VIEW task_view AS
SELECT t.id, t.public_id, t.tenant_id, t.context_id, t.revision, t.state,
       CASE WHEN t.edited IS NOT NULL AND (t.ended_at IS NULL OR t.state = 'cancelled') THEN th_edited_message(t)
            WHEN t.state = 'queued' THEN coalesce((
                SELECT th_words('paused', s.name) FROM tool o JOIN server s ON s.id = o.server_id
                WHERE o.id = t.tool_id AND NOT s.enabled AND s.removed_at IS NULL), t.message)
            ELSE t.message END::varchar(1024) AS message,
       t.progress, t.total,
       t.created_at, t.updated_at, t.ended_at, t.ttl_ms, t.poll_interval_ms, t.result, t.error, t.is_error,
       t.cancel_requested_at, t.version, t.tool_name, t.expires_at, t.session_id, t.progress_token, t.handle,
       t.client_task_id, t.keep_ms, t.join_seconds, t.left_at,
       CASE WHEN t.state = 'input_required' THEN (
           SELECT json_agg(json_build_object(
                      'id', q.id, 'key', q.key, 'kind', q.kind, 'params', q.params, 'audience', q.audience,
                      'group', q."group", 'quorum', q.quorum,
                      'approvals', (SELECT count(*) FROM decision d
                                    WHERE d.question_id = q.id AND d.verdict = 'approve'),
                      'page', q.audience = 'operator' AND t.client_capabilities #> '{elicitation,url}' IS NOT NULL
                              AND (t.session_id IS NOT NULL
                                   OR coalesce(t.client_info ->> 'name', '') NOT IN ('mcp', 'fastmcp'))
                              AND NOT EXISTS (SELECT FROM outbound o
                                              WHERE o.question_id = q.id AND o.page AND o.state <> 'open'),
                      'by_tool', q.audience = 'client' AND q.kind = 'elicitation'
                                 AND coalesce(q.params ->> 'mode', '') <> 'url'
                                 AND (t.waiter IS NOT NULL OR t.left_at IS NOT NULL)
                                 AND NOT coalesce(jsonb_typeof(t.client_capabilities -> 'elicitation') = 'object'
                                                  AND (t.client_capabilities -> 'elicitation' = '{}'
                                                       OR t.client_capabilities -> 'elicitation' ? 'form'), false),
                      'offered', EXISTS (SELECT FROM outbound o
                                         WHERE o.question_id = q.id AND o.page AND o.state = 'offered'))
                  ORDER BY q.id)
           FROM question q WHERE q.task_id = t.id AND q.state = 'open') END AS open_questions,
       t.ended_as
FROM task t;

CREATE OR REPLACE FUNCTION note(p_id bigint, p_epoch int, p_lines jsonb, p_keep int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    latest jsonb;
BEGIN
    SELECT l INTO latest FROM jsonb_array_elements(p_lines) WITH ORDINALITY AS e(l, n)
    WHERE l ->> 'level' = 'progress' ORDER BY n DESC LIMIT 1;
    -- The lines are stored together with the progress, so that readers that the hint wakes find both.
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

-- Stores the results of p_ended: an array of {id, epoch, result, is_error, message}. Returns the ids of the tasks that
-- are finished now; the lease of a missing one was lost. A task whose last run was lost takes the late result of that
-- run, as long as nobody has ruled on it (th_unruled). One statement for all of them: opening the table's indexes and
-- reading its CHECKs costs more than a row.
CREATE OR REPLACE FUNCTION finish_tasks(p_ended json, p_who text) RETURNS SETOF bigint
-- The settings keep a plan that was made for an empty table from being slow later.
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
            -- In the same order in every transaction: otherwise two batches could deadlock. LATERAL, here and below,
            -- since a join that was planned for small tables would read all tasks, open questions or attempts.
            SELECT g.*, t.state FROM (SELECT * FROM given ORDER BY id) AS g CROSS JOIN LATERAL (
                SELECT w.state FROM task w
                WHERE w.id = g.id AND w.lease_epoch = g.epoch
                  AND (th_held(w.lease_until) OR w.state = 'input_required' AND th_unruled(w.id))
                FOR UPDATE
            ) AS t
        ), unanswered AS (
            UPDATE question SET state = 'superseded', closed_at = clock_timestamp()
            WHERE id = ANY (ARRAY(
                SELECT o.id FROM held h CROSS JOIN LATERAL (
                    SELECT q.id FROM question q WHERE q.task_id = h.id AND q.state = 'open' OFFSET 0
                ) AS o WHERE h.state = 'input_required'))
        ), closed AS (
            UPDATE attempt SET ended_at = clock_timestamp(), outcome = 'finished', error = ''
            WHERE id = ANY (ARRAY(
                SELECT o.id FROM held h CROSS JOIN LATERAL (
                    SELECT a.id FROM attempt a WHERE a.task_id = h.id AND a.number = h.epoch
                    AND (a.ended_at IS NULL OR a.outcome = 'lost') OFFSET 0
                ) AS o))
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

-- Ends a task with an error, or has it tried again (th_try_again); p_kind is the error's name in a policy, empty for an
-- error after which nothing is tried again. As with a result (finish_tasks), the late error of a lost run counts before
-- a ruling.
CREATE OR REPLACE FUNCTION fault(p_id bigint, p_epoch int, p_error text, p_message text, p_kind text, p_who text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('th.who', p_who, true);
    PERFORM 1 FROM task WHERE id = p_id AND lease_epoch = p_epoch
        AND (th_held(lease_until) OR state = 'input_required' AND th_unruled(id)) FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM th_record_stale(p_id, p_epoch, 'fault');
        RETURN false;
    END IF;
    UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = p_id AND state = 'open';
    IF p_kind <> '' AND th_try_again(p_id, p_epoch, p_kind, p_message) THEN
        RETURN true;
    END IF;
    UPDATE task SET state = 'faulted', error = p_error, message = left(p_message, 1024),
           ended_at = clock_timestamp(), lease_until = NULL, upstream_state = NULL
    WHERE id = p_id;
    UPDATE attempt SET ended_at = clock_timestamp(), outcome = 'faulted', error = p_message
    WHERE task_id = p_id AND number = p_epoch AND (ended_at IS NULL OR outcome = 'lost');
    RETURN true;
END $$;

-- Ends a task as cancelled, after its worker has stopped the tool as requested. Returns false if the lease was lost, or
-- the cancellation was not requested.
CREATE OR REPLACE FUNCTION settle_cancel(p_id bigint, p_epoch int, p_message text, p_who text) RETURNS boolean
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

-- Returns a task to the queue, because its server cannot be reached or its worker ends. If its tool had started and may
-- not run twice, its run is lost instead (th_lose). Returns false if the lease was lost.
CREATE OR REPLACE FUNCTION release(p_id bigint, p_epoch int, p_started boolean, p_delay_seconds float8,
                                      p_reason text, p_outcome_seconds float8, p_who text)
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
        -- A task to be cancelled is claimed by no worker, so nothing else would end it.
        UPDATE task SET state = 'cancelled', lease_until = NULL, ended_at = clock_timestamp(), upstream_state = NULL,
               message = th_words(CASE WHEN p_started THEN 'cancelled_unconfirmed' ELSE 'cancelled_unstarted' END)
        WHERE id = p_id;
        PERFORM th_close_attempt(p_id, p_epoch, 'cancelled', p_reason);
        RETURN true;
    END IF;
    IF p_started AND NOT held.at_least_once THEN
        PERFORM th_lose(p_id, 'worker_stopped', th_words('worker_stopped'), p_reason, p_outcome_seconds);
        RETURN true;
    END IF;
    UPDATE task SET state = 'queued', lease_until = NULL, worker = '', message = left(p_reason, 1024),
           runnable_at = clock_timestamp() + make_interval(secs => p_delay_seconds) WHERE id = p_id;
    PERFORM th_close_attempt(p_id, p_epoch, 'released', p_reason);
    PERFORM th_wake_workers();
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION th_close_attempt(p_id bigint, p_epoch int, p_outcome text, p_error text) RETURNS void
LANGUAGE sql AS $$
    UPDATE attempt SET ended_at = clock_timestamp(), outcome = p_outcome, error = p_error
    WHERE task_id = p_id AND number = p_epoch AND ended_at IS NULL
$$;

-- The message of a task that is cancelled while no worker holds it. Its tool did run if an attempt asked a question or
-- lost its worker; if people were asked whether it ran and have not said, that stays unknown.
CREATE OR REPLACE FUNCTION th_cancelled_idle(p_id bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT th_words(CASE WHEN EXISTS (SELECT FROM question q
                                      WHERE q.task_id = p_id AND q.kind = 'outcome' AND q.state <> 'answered')
                         THEN 'cancelled_unruled'
                         WHEN EXISTS (SELECT 1 FROM attempt a WHERE a.task_id = p_id AND a.outcome IN ('asked', 'lost'))
                         THEN 'cancelled_between' ELSE 'cancelled_unstarted' END)
$$;

-- Records the request to cancel a task. A task that no worker runs ends at once; the worker of a running one learns of
-- the request when it renews its lease. Returns the state after that; 'unknown' if there is no such task.
CREATE OR REPLACE FUNCTION request_cancel(p_id bigint, p_who text) RETURNS text LANGUAGE plpgsql AS $$
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
               message = th_cancelled_idle(p_id), upstream_state = NULL WHERE id = p_id;
        RETURN 'cancelled';
    END IF;
    UPDATE task SET cancel_requested_at = clock_timestamp(), message = th_words('cancel_requested') WHERE id = p_id;
    RETURN held.state;
END $$;

-- Ends the task as cancelled at once, even while a worker runs it: later writes of the worker are dropped. Returns '',
-- the state of a task that had ended before, or 'unknown' if there is no such task.
CREATE OR REPLACE FUNCTION cancel_now(p_id bigint, p_who text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT state, lease_epoch, lease_until, cancel_requested_at, ended_at INTO held
    FROM task WHERE id = p_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    IF held.ended_at IS NOT NULL THEN
        RETURN held.state;
    END IF;
    UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = p_id AND state = 'open';
    UPDATE task SET state = 'cancelled', ended_at = clock_timestamp(), lease_until = NULL, upstream_state = NULL,
           cancel_requested_at = coalesce(held.cancel_requested_at, clock_timestamp()),
           message = CASE WHEN held.lease_until IS NULL THEN th_cancelled_idle(p_id) ELSE th_words('cancelled_running') END
    WHERE id = p_id;
    PERFORM th_close_attempt(p_id, held.lease_epoch, 'cancelled', '');
    RETURN '';
END $$;

-- Ends the calls of a removed server that no worker has, also deferred ones, at most p_limit. Calls beyond that, and
-- calls that come back to the queue later, are ended by the claim (th_hold_back). Returns how many it ended.
CREATE OR REPLACE FUNCTION end_calls_of_removed(p_server bigint, p_limit int, p_who text) RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    t record;
    why text;
    lost text;
    ended int := 0;
BEGIN
    PERFORM set_config('th.who', p_who, true), set_config('th.hints', '', true);
    FOR t IN
        SELECT w.id, w.lease_epoch FROM task w
        WHERE w.ended_at IS NULL AND (w.lease_until IS NULL OR w.lease_until = 'infinity')
          AND w.tool_id IN (SELECT o.id FROM tool o JOIN server s ON s.id = o.server_id
                            WHERE s.id = p_server AND s.removed_at IS NOT NULL)
        ORDER BY w.id LIMIT p_limit FOR UPDATE OF w SKIP LOCKED
    LOOP
        ended := ended + 1;
        lost := (SELECT q.params ->> 'told' FROM question q
                 WHERE q.task_id = t.id AND q.kind = 'outcome' AND q.state = 'open');
        why := CASE WHEN lost IS NOT NULL THEN lost || '; ' || th_words('server_removed')
                    ELSE th_words(CASE WHEN t.lease_epoch = 0 THEN 'not_run' ELSE 'not_continued' END,
                                  th_words('server_removed')) END;
        UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = t.id AND state = 'open';
        UPDATE task SET state = 'faulted', message = left(why, 1024),
               error = th_error(why, CASE WHEN lost IS NULL THEN 'server_removed' ELSE 'outcome_unknown' END),
               ended_at = clock_timestamp(), lease_until = NULL, upstream_state = NULL WHERE id = t.id;
    END LOOP;
    RETURN ended;
END $$;

-- Makes the changes that are due by time alone. Run often, by any worker. Returns how many tasks changed, or had people
-- reminded of them.
CREATE OR REPLACE FUNCTION sweep(p_grace_seconds float8, p_limit int, p_outcome_seconds float8, p_who text)
RETURNS int LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    t record;
    why text;
    changed int := 0;
    -- Constant during this sweep, so that it can bound an index scan. A call of the volatile clock cannot.
    moment timestamptz := clock_timestamp();
BEGIN
    PERFORM set_config('th.who', p_who, true), set_config('th.hints', '', true);
    -- Leases that ran out, and cancelled tools that did not stop within the grace period.
    FOR t IN
        SELECT id, lease_epoch, cancel_requested_at FROM task
        WHERE worker <> '' AND ended_at IS NULL AND lease_until IS NOT NULL
          AND (lease_until < clock_timestamp()
               OR cancel_requested_at < clock_timestamp() - make_interval(secs => p_grace_seconds))
        ORDER BY lease_until LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        changed := changed + 1;
        IF t.cancel_requested_at IS NOT NULL THEN
            UPDATE question SET state = 'superseded', closed_at = clock_timestamp()
            WHERE task_id = t.id AND state = 'open';
            UPDATE task SET state = 'cancelled', message = th_words('cancelled_unconfirmed'),
                   ended_at = clock_timestamp(), lease_until = NULL, upstream_state = NULL WHERE id = t.id;
            PERFORM th_close_attempt(t.id, t.lease_epoch, 'cancelled', '');
        ELSE
            PERFORM th_lose(t.id, 'worker_lost', th_words('worker_lost'), 'the lease ran out', p_outcome_seconds);
        END IF;
    END LOOP;
    changed := changed + th_sweep_deferred(moment - make_interval(secs => 2 * p_grace_seconds), p_limit);
    -- Questions that were not answered in time.
    FOR t IN
        SELECT id, lease_epoch FROM task WHERE state = 'input_required' AND EXISTS (
            SELECT 1 FROM question q WHERE q.task_id = task.id AND q.closed_at IS NULL AND q.due_at < clock_timestamp())
        LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        -- Checked again under the lock: meanwhile another sweep may have asked another group.
        CONTINUE WHEN NOT EXISTS (SELECT FROM question q WHERE q.task_id = t.id AND q.closed_at IS NULL
                                  AND q.due_at < clock_timestamp());
        changed := changed + 1;
        CONTINUE WHEN th_decide_undecided(t.id);
        why := (SELECT th_words('outcome_unruled', q.params ->> 'told') FROM question q
                WHERE q.task_id = t.id AND q.state = 'open' AND q.kind = 'outcome');
        UPDATE question SET state = CASE WHEN due_at < clock_timestamp() THEN 'expired' ELSE 'superseded' END,
               closed_at = clock_timestamp() WHERE task_id = t.id AND state = 'open';
        UPDATE task SET state = 'faulted', lease_until = NULL, ended_at = clock_timestamp(), upstream_state = NULL,
               ended_as = CASE WHEN why IS NULL THEN 'expired' ELSE '' END,
               message = coalesce(why, th_words('input_timeout')),
               error = CASE WHEN why IS NULL THEN th_error(th_words('input_timeout'), 'input_timeout')
                            ELSE th_error(why, 'outcome_unknown') END
        WHERE id = t.id;
        PERFORM th_close_attempt(t.id, t.lease_epoch, 'faulted', 'input timeout');
    END LOOP;
    -- Tasks whose rejection cannot be undone any more, and that no claim ends, such as calls to a disabled server.
    FOR t IN
        SELECT k.id, q.id AS question_id FROM decision d
        JOIN question q ON q.id = d.question_id JOIN task k ON k.id = q.task_id
        WHERE d.verdict = 'reject' AND d.undo_until BETWEEN moment - interval '1 day' AND moment
          AND k.state = 'queued' AND q.state = 'answered'
        LIMIT p_limit FOR UPDATE OF k SKIP LOCKED
    LOOP
        changed := changed + 1;
        PERFORM th_end_rejected(t.id, t.question_id);
    END LOOP;
    changed := changed + th_remind(moment, p_limit);
    -- The time to live is extended while a task waits for an answer.
    UPDATE task SET expires_at = clock_timestamp() + interval '1 hour',
           ttl_ms = least(2592000000,
                          (extract(epoch FROM clock_timestamp() + interval '1 hour' - created_at) * 1000)::bigint)
    WHERE id = ANY (ARRAY(
        SELECT id FROM task WHERE state = 'input_required' AND ttl_ms IS NOT NULL
            AND expires_at < clock_timestamp() + interval '30 minutes' LIMIT p_limit FOR UPDATE SKIP LOCKED));
    -- Tasks that expired while they were queued will not run any more.
    FOR t IN
        SELECT id FROM task WHERE state = 'queued' AND expires_at < moment
        ORDER BY expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        changed := changed + 1;
        UPDATE task SET state = 'faulted', ended_as = 'expired', ended_at = clock_timestamp(),
               message = th_words('expired'),
               error = th_error(th_words('expired'), 'expired')
        WHERE id = t.id;
    END LOOP;
    -- Makes sure that there is a wake-up for runnable tasks.
    IF EXISTS (SELECT 1 FROM task
               WHERE state = 'queued' AND runnable_at < moment - interval '5 seconds') THEN
        PERFORM pg_notify('taskhub', 'w');
        PERFORM th_wake_workers();
    END IF;
    RETURN changed;
END $$;
