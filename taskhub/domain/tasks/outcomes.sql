-- Calls whose worker or connection was lost while their tool ran, so that nobody knows whether the tool did its work.

-- Whether the task waits for a ruling on its last run.
CREATE OR REPLACE FUNCTION th_unruled(p_id bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM question q WHERE q.task_id = p_id AND q.kind = 'outcome' AND q.state = 'open')
$$;

-- Decides what follows when the run of a task, whose lock the caller holds, is lost. p_why is a code of `th_words`,
-- p_told its sentence, p_error the error of the attempt. A tool that may be repeated is run again, up to its attempts.
-- For any other, people are asked whether it ran (a question of the kind `outcome`), for p_seconds; with 0 nobody is
-- asked.
CREATE OR REPLACE FUNCTION th_lose(p_id bigint, p_why text, p_told text, p_error text, p_seconds float8) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    t record;
    question_key text;
BEGIN
    SELECT w.tenant_id, w.context_id, w.tool_id, w.tool_name, w.lease_epoch, w.worker, w.crashes, w.max_attempts,
           w.at_least_once, s.name AS server, s.removed_at, a.started_at INTO t
    FROM task w JOIN tool o ON o.id = w.tool_id JOIN server s ON s.id = o.server_id
    LEFT JOIN attempt a ON a.task_id = w.id AND a.number = w.lease_epoch WHERE w.id = p_id;
    UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = p_id AND state = 'open';
    PERFORM th_close_attempt(p_id, t.lease_epoch, 'lost', p_error);
    IF t.at_least_once AND t.crashes + 1 < t.max_attempts THEN
        UPDATE task SET state = 'queued', crashes = crashes + 1, lease_until = NULL, worker = '',
               message = CASE p_why WHEN 'server_lost' THEN th_words('server_lost_requeued', t.server)
                                    WHEN 'task_lost' THEN th_words('task_lost_requeued', t.server)
                                    ELSE th_words('worker_lost_requeued') END,
               runnable_at = clock_timestamp() + CASE WHEN p_why IN ('server_lost', 'task_lost') THEN th_pause(p_id, 1)
                                                      ELSE interval '0' END
        WHERE id = p_id;
        PERFORM th_wake_workers();
    ELSIF t.at_least_once OR p_seconds <= 0 OR t.removed_at IS NOT NULL THEN
        UPDATE task SET state = 'faulted', crashes = crashes + 1, lease_until = NULL, ended_at = clock_timestamp(),
               message = left(p_told, 1024), upstream_state = NULL,
               error = th_error(CASE WHEN t.at_least_once AND p_why = 'worker_lost'
                                     THEN th_words('worker_lost_often', t.max_attempts::text)
                                     ELSE p_told END, 'outcome_unknown')
        WHERE id = p_id;
    ELSE
        question_key := 'outcome-' || t.lease_epoch;
        INSERT INTO event (tenant_id, task_id, action, actor, door, context_id, target, reason, after)
        VALUES (t.tenant_id, p_id, 'task.outcome.unknown', coalesce(th_who('name'), session_user),
                coalesce(th_who('door'), 'sql'), t.context_id, t.tool_name, left(p_told, 1024),
                jsonb_build_object('key', question_key, 'why', p_why, 'worker', t.worker, 'epoch', t.lease_epoch));
        PERFORM th_open_questions(p_id, t.tenant_id, json_build_array(json_build_object(
            'key', question_key, 'kind', 'outcome', 'audience', 'operator', 'due_seconds', p_seconds,
            'params', json_build_object('tool', t.tool_name, 'server', t.server, 'why', p_why, 'told', p_told,
                                        'worker', t.worker, 'attempt', t.lease_epoch, 'began', t.started_at,
                                        'lost', clock_timestamp()))), false);
        INSERT INTO outcome_check (question_id)
        SELECT q.id FROM question q JOIN tool o ON o.id = t.tool_id
        WHERE q.task_id = p_id AND q.key = question_key AND o.companion <> '{}';
        UPDATE task SET state = 'input_required', crashes = crashes + 1, lease_until = NULL, worker = '',
               message = left(th_words('waiting_ruling', p_told), 1024), version = version + 1
        WHERE id = p_id;
    END IF;
END $$;

-- The pause before a further try: p_seconds, doubled with every earlier try of the task, at most 5 minutes; and up to
-- half of that more or less, so that calls that failed together do not come back together.
CREATE OR REPLACE FUNCTION th_pause(p_id bigint, p_seconds int) RETURNS interval LANGUAGE sql VOLATILE AS $$
    SELECT least(300, p_seconds * 2 ^ least(count(*) - 1, 16)) * (0.5 + random()) * interval '1 second'
    FROM attempt a WHERE a.task_id = p_id AND a.outcome IN ('lost', 'retried')
$$;

-- Reports that the connection to the server was lost while the tool ran. Returns false if the lease was lost.
CREATE OR REPLACE FUNCTION lose(p_id bigint, p_epoch int, p_told text, p_seconds float8, p_who text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT cancel_requested_at INTO held FROM task
    WHERE id = p_id AND lease_epoch = p_epoch AND th_held(lease_until) FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM th_record_stale(p_id, p_epoch, 'lose');
        RETURN false;
    END IF;
    IF held.cancel_requested_at IS NOT NULL THEN
        UPDATE question SET state = 'superseded', closed_at = clock_timestamp()
        WHERE task_id = p_id AND state = 'open';
        UPDATE task SET state = 'cancelled', message = th_words('cancelled_unconfirmed'), lease_until = NULL,
               ended_at = clock_timestamp(), upstream_state = NULL WHERE id = p_id;
        PERFORM th_close_attempt(p_id, p_epoch, 'cancelled', p_told);
        RETURN true;
    END IF;
    PERFORM th_lose(p_id, 'server_lost', p_told, p_told, p_seconds);
    RETURN true;
END $$;

-- Returns the task to the queue after an error, if the present policy of its tool names the error p_kind and the task
-- has attempts left: lost runs and tries count together. The caller holds the task's lock. Returns whether the task was
-- returned to the queue.
CREATE OR REPLACE FUNCTION th_try_again(p_id bigint, p_epoch int, p_kind text, p_message text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    t record;
    tries bigint;
BEGIN
    SELECT w.max_attempts, o.retry_seconds INTO t FROM task w JOIN tool o ON o.id = w.tool_id
    JOIN server s ON s.id = o.server_id
    WHERE w.id = p_id AND o.retry_on ? p_kind AND w.cancel_requested_at IS NULL AND s.removed_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT count(*) + 1 INTO tries FROM attempt a WHERE a.task_id = p_id AND a.outcome IN ('lost', 'retried')
        AND a.number <> p_epoch;
    IF tries >= t.max_attempts THEN
        RETURN false;
    END IF;
    UPDATE attempt SET ended_at = clock_timestamp(), outcome = 'retried', error = p_message
    WHERE task_id = p_id AND number = p_epoch AND (ended_at IS NULL OR outcome = 'lost');
    UPDATE task SET state = 'queued', lease_until = NULL, worker = '',
           message = left(th_words('tried_again', tries::text, t.max_attempts::text, p_message), 1024),
           runnable_at = clock_timestamp() + th_pause(p_id, t.retry_seconds) WHERE id = p_id;
    PERFORM th_wake_workers();
    RETURN true;
END $$;

-- Ends the check of a question by its companion, in the try p_tries. Returns whether the check was still under way.
CREATE OR REPLACE FUNCTION end_check(p_question bigint, p_tries int, p_tool text, p_arguments text, p_result text,
                                     p_problem text, p_who text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('th.who', p_who, true);
    UPDATE outcome_check SET ended_at = clock_timestamp(), tool_name = p_tool, arguments = p_arguments,
           result = p_result, problem = p_problem
    WHERE question_id = p_question AND tries = p_tries AND ended_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO event (tenant_id, task_id, action, actor, door, context_id, target, reason, after)
    SELECT t.tenant_id, t.id, 'task.outcome.checked', coalesce(th_who('name'), session_user),
           coalesce(th_who('door'), 'sql'), t.context_id, t.tool_name, left(p_problem, 1024),
           jsonb_build_object('key', q.key, 'tool', p_tool, 'answered', p_result IS NOT NULL)
    FROM question q JOIN task t ON t.id = q.task_id WHERE q.id = p_question;
    RETURN true;
END $$;
