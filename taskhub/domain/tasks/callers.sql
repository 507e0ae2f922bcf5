-- Plain calls, whose callers wait for the result, leave and come back (domain/tasks/callers.py).

-- Whether the web process of this waiter has ended or was killed: then nobody holds its advisory lock
-- (store/listener.py).
CREATE OR REPLACE FUNCTION th_web_gone(p_waiter text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT strpos(p_waiter, '.') > 0 AND NOT EXISTS (
        SELECT FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
        WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
          AND l.classid = 7225 AND l.objid = hashtext(split_part(p_waiter, '.', 1))::oid)
$$;

-- Like create_tasks, but a call with join_seconds joins an earlier equal call of the same client and program, if there
-- is one whose result the client has not had: it is still live; or it ended at most join_seconds ago, and its caller
-- had left, or waited in a web process that was killed. The row then names the earlier task, with r_existed.
-- join_session: only calls of that session are joined, because callers without a token share one client. joins_only: no
-- task is made of the call; without a call to join there is no row for it.
CREATE OR REPLACE FUNCTION join_or_create_tasks(p_wanted json, p_who text)
RETURNS TABLE (r_n int, r_existed boolean, r_reused boolean, r_id bigint, r_created_at timestamptz, r_in_place boolean)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    wanted record;
    digest bytea;
    earlier record;
    done int[] := '{}';
BEGIN
    PERFORM set_config('th.who', p_who, true);
    -- Two equal calls at the same moment: the second waits for the first, and then finds it.
    PERFORM pg_advisory_xact_lock(hashtextextended(i.digest, i.context))
    FROM (SELECT DISTINCT c.context, c.digest FROM json_to_recordset(p_wanted) AS c(context bigint, digest text,
                                                                                    join_seconds int)
          WHERE c.join_seconds IS NOT NULL ORDER BY c.context, c.digest) AS i;
    FOR wanted IN
        SELECT i.* FROM json_to_recordset(p_wanted) AS i(
            n int, public_id text, context bigint, tool bigint, digest text, revision text, join_seconds int,
            waiter text, join_session bigint, client_info jsonb, client_capabilities jsonb, joins_only boolean)
        WHERE i.join_seconds IS NOT NULL ORDER BY i.n
    LOOP
        digest := decode(wanted.digest, 'hex');
        -- Ordered by the columns of the wanted index, and with BETWEEN in place of `=`: otherwise a plan that was made
        -- for a small table could take any index that begins with the client, and read all of its tasks.
        SELECT t.id, t.created_at INTO earlier FROM (
            (SELECT l.* FROM task l
             WHERE l.context_id BETWEEN wanted.context AND wanted.context
               AND l.arguments_digest BETWEEN digest AND digest AND l.ended_at IS NULL
             ORDER BY l.context_id, l.arguments_digest)
            UNION ALL
            (SELECT e.* FROM task e
             WHERE e.context_id BETWEEN wanted.context AND wanted.context
               AND e.arguments_digest BETWEEN digest AND digest AND e.left_at IS NOT NULL
               AND e.ended_at > clock_timestamp() - e.join_seconds * interval '1 second'
             ORDER BY e.context_id, e.arguments_digest)) AS t
        WHERE t.tool_id = wanted.tool AND t.revision = wanted.revision AND t.join_seconds IS NOT NULL
          AND t.cancel_requested_at IS NULL
          AND t.client_info = wanted.client_info AND t.client_capabilities = wanted.client_capabilities
          AND (wanted.join_session IS NULL OR t.session_id = wanted.join_session)
        ORDER BY t.id DESC LIMIT 1;
        IF NOT FOUND THEN
            -- Otherwise the newest equal call that ended while its caller waited. Whether its result was given is known
            -- to the process that gave it, which records that some seconds later (result_read). So the result counts as
            -- not given only if another process than this one should have given it, has recorded nothing, and is gone.
            SELECT t.id, t.created_at INTO earlier FROM (
                SELECT e.id, e.created_at, e.waiter FROM task e
                WHERE e.context_id BETWEEN wanted.context AND wanted.context
                  AND e.tool_id BETWEEN wanted.tool AND wanted.tool
                  AND e.arguments_digest BETWEEN digest AND digest AND e.waiter IS NOT NULL
                  AND e.ended_at > statement_timestamp() - wanted.join_seconds * interval '1 second'
                  AND e.revision = wanted.revision AND e.join_seconds IS NOT NULL AND e.cancel_requested_at IS NULL
                  AND e.client_info = wanted.client_info AND e.client_capabilities = wanted.client_capabilities
                  AND (wanted.join_session IS NULL OR e.session_id = wanted.join_session)
                ORDER BY e.context_id DESC, e.tool_id DESC, e.arguments_digest DESC, e.ended_at DESC LIMIT 1) AS t
            WHERE split_part(t.waiter, '.', 1) <> split_part(wanted.waiter, '.', 1)
              AND NOT EXISTS (SELECT FROM result_read AS r WHERE r.task_id = t.id) AND th_web_gone(t.waiter);
        END IF;
        IF FOUND OR wanted.joins_only THEN
            done := done || wanted.n;
        END IF;
        CONTINUE WHEN earlier.id IS NULL;
        UPDATE task SET left_at = NULL, waiter = wanted.waiter WHERE id = earlier.id;
        PERFORM th_record_caller(earlier.id, 'task.joined', wanted.public_id);
        RETURN QUERY SELECT wanted.n, true, false, earlier.id, earlier.created_at, false;
    END LOOP;
    RETURN QUERY SELECT c.* FROM create_tasks(
        CASE WHEN done = '{}' THEN p_wanted
             ELSE (SELECT coalesce(json_agg(w), '[]') FROM json_array_elements(p_wanted) AS w
                   WHERE (w ->> 'n')::int <> ALL (done)) END, p_who) AS c;
END $$;

-- Records an event about the caller of a plain call. `p_as`: if p_who has an actor for each new task (create_tasks),
-- the public id of the task whose actor is meant; otherwise empty.
CREATE OR REPLACE FUNCTION th_record_caller(p_id bigint, p_action text, p_as text DEFAULT '') RETURNS void
LANGUAGE sql AS $$
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, target, reason, after)
    SELECT t.tenant_id, t.id, p_action, coalesce(w ->> 'name', session_user), coalesce(w ->> 'door', 'sql'),
           coalesce(w ->> 'address', ''), coalesce((w ->> 'context_id')::bigint, t.context_id), t.tool_name,
           left(coalesce(w ->> 'reason', ''), 1024), jsonb_build_object('state', t.state)
    FROM task t CROSS JOIN LATERAL (
        SELECT coalesce(nullif(current_setting('th.who', true), ''), '{}')::jsonb AS who) AS s
    CROSS JOIN LATERAL (SELECT coalesce(s.who -> 'tasks' -> p_as, s.who)) AS actor(w)
    WHERE t.id = p_id
$$;

-- Records that the caller of a plain call stopped waiting without its result. Returns the time; null if p_waiter is not
-- the caller who waits, because an equal call was made meanwhile or its caller had left before. An empty p_waiter
-- stands for any. With p_interim there is no event, since interim results are given again and again.
CREATE OR REPLACE FUNCTION leave_task(p_id bigint, p_waiter text, p_interim boolean, p_who text) RETURNS timestamptz
LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    UPDATE task SET left_at = clock_timestamp(), waiter = NULL
    WHERE id = p_id AND waiter IS NOT NULL AND p_waiter IN (waiter, '')
    RETURNING left_at INTO moment;
    IF moment IS NOT NULL AND NOT p_interim THEN
        PERFORM th_record_caller(p_id, 'task.left');
    END IF;
    RETURN moment;
END $$;

-- Cancels a call whose caller left at p_left_at and has not come back. Does not cancel a call that a person was asked
-- about, because the person may be looking at it. Returns whether the cancellation was requested.
CREATE OR REPLACE FUNCTION cancel_left(p_id bigint, p_left_at timestamptz, p_who text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM task WHERE id = p_id AND left_at = p_left_at AND ended_at IS NULL FOR UPDATE;
    IF NOT FOUND OR EXISTS (SELECT FROM question WHERE task_id = p_id AND audience <> 'client') THEN
        RETURN false;
    END IF;
    PERFORM request_cancel(p_id, p_who);
    RETURN true;
END $$;
