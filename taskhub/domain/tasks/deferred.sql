-- Deferred calls: calls that their server runs as tasks of its own, which workers poll (domain/tasks/deferred.py). The
-- task of a deferred call has a lease without end ('infinity') that belongs to no worker: it takes no slot, the sweep
-- does not count it as lost, and the functions that end a task or ask for it work on it as on any other.
-- The task is locked before its row in `deferred`, so that no two changes can deadlock.

-- Hands the task over to its server. p_home: the worker that polls it as long as that worker lives; empty if any may.
-- p_session: the id of the session at the server to which the task belongs, encrypted; null if there is none.
-- p_ran_seconds: how long the call has run so far. The numbers of turns continue from those of earlier attempts, so
-- that a late worker of an earlier attempt has no valid turn. Returns false if the lease was lost.
CREATE OR REPLACE FUNCTION defer_task(p_id bigint, p_epoch int, p_server bigint, p_upstream text, p_revision text,
                                      p_home text, p_status text, p_poll_ms int, p_delay_ms int, p_ran_seconds float8,
                                      p_message text, p_session bytea, p_who text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT tenant_id, context_id, tool_name, cancel_requested_at INTO held FROM task
    WHERE id = p_id AND lease_epoch = p_epoch AND th_held(lease_until) AND state = 'working' FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM th_record_stale(p_id, p_epoch, 'defer');
        RETURN false;
    END IF;
    INSERT INTO deferred (task_id, epoch, server_id, upstream_id, revision, home, status, poll_ms, poll_at, ran_seconds,
                          running_since, cancel_at, turn, session, created_at)
    VALUES (p_id, p_epoch, p_server, p_upstream, p_revision, p_home, p_status, p_poll_ms,
            clock_timestamp() + p_delay_ms * interval '1 millisecond', p_ran_seconds, clock_timestamp(),
            held.cancel_requested_at, coalesce((SELECT max(d.turn) + 1 FROM deferred d WHERE d.task_id = p_id), 0),
            p_session, clock_timestamp());
    UPDATE task SET lease_until = 'infinity', worker = '',
           message = CASE WHEN held.cancel_requested_at IS NULL THEN left(p_message, 1024) ELSE message END
    WHERE id = p_id;
    INSERT INTO event (tenant_id, task_id, action, actor, door, context_id, target, after)
    VALUES (held.tenant_id, p_id, 'task.deferred', coalesce(th_who('name'), session_user),
            coalesce(th_who('door'), 'sql'), held.context_id, held.tool_name,
            jsonb_build_object('state', 'working', 'epoch', p_epoch, 'revision', p_revision));
    RETURN true;
END $$;

-- Takes polls that are due: of each of p_servers at most as many as its entry in p_most. A poll that is taken is due
-- again after p_lease_seconds unless the worker sets another time before, so that another worker takes over from one
-- that dies.
-- Each time a poll is taken, `turn` is raised, and writes with an earlier turn change nothing.
-- A call with a home is polled by that worker; if it is lost, by the worker that has the client's session now, or by
-- any.
-- A deferred call whose task has ended is taken only to cancel the server's task (r_ended).
CREATE OR REPLACE FUNCTION take_polls(p_worker text, p_servers bigint[], p_most int[], p_lease_seconds float8)
RETURNS TABLE (id bigint, public_id text, epoch int, tenant_id bigint, context_id bigint, server_id bigint,
               server_name text, tool_id bigint, upstream_tool text, session bytea, client_capabilities text,
               question_audience text,
               run_seconds int, upstream_id text, revision text, status text, turn int, poll_ms int, message text,
               cancelling boolean, ended boolean, overdue boolean, ran_seconds float8, live text, keys text[])
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT o.id FROM unnest(p_servers, p_most) AS s(id, most) CROSS JOIN LATERAL (
            SELECT d.id FROM deferred d
            WHERE d.server_id = s.id AND d.poll_at <= moment
              AND (d.home IN ('', p_worker) OR NOT EXISTS (
                  SELECT FROM worker w WHERE w.name = d.home AND th_alive(w)) AND NOT EXISTS (
                  SELECT FROM task c JOIN upstream_session u ON u.context_id = c.context_id
                  JOIN worker w ON w.name = u.worker AND th_alive(w)
                  WHERE c.id = d.task_id AND u.server_id = d.server_id AND u.ended_at IS NULL
                    AND u.worker <> p_worker))
            ORDER BY d.poll_at LIMIT s.most FOR UPDATE SKIP LOCKED) o
    ), taken AS (
        UPDATE deferred d SET turn = d.turn + 1, poll_at = moment + make_interval(secs => p_lease_seconds)
        FROM due WHERE d.id = due.id RETURNING d.*
    )
    SELECT t.id, t.public_id::text, d.epoch, t.tenant_id, t.context_id, d.server_id, s.name::text, t.tool_id,
           o.name::text, d.session, t.client_capabilities::text, o.question_audience::text, t.run_seconds, d.upstream_id::text,
           d.revision::text, d.status::text, d.turn, d.poll_ms, t.message::text, d.cancel_at IS NOT NULL,
           t.ended_at IS NOT NULL, d.cancel_at < moment - interval '10 seconds',
           d.ran_seconds + coalesce(extract(epoch FROM moment - d.running_since)::float8, 0),
           (SELECT json_object_agg(q.upstream_key, json_build_array(q.state, q.response, q.error)) FROM question q
            WHERE q.task_id = t.id AND q.live AND q.upstream_key <> '')::text,
           ARRAY(SELECT q.key::text FROM question q WHERE q.task_id = t.id)
    FROM taken d JOIN task t ON t.id = d.task_id JOIN tool o ON o.id = t.tool_id JOIN server s ON s.id = d.server_id;
END $$;

-- Puts polls back, or keeps them longer: p_polls is an array of {id, turn, status, poll_ms, delay_ms, message}. Each is
-- due after `delay_ms`. Without a `message` nothing is written to the task. Returns the ids of those whose turn is
-- valid.
CREATE OR REPLACE FUNCTION put_back_polls(p_polls json, p_who text) RETURNS SETOF bigint
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    PERFORM set_config('th.who', p_who, true);
    IF EXISTS (SELECT FROM json_array_elements(p_polls) AS p WHERE p ->> 'message' IS NOT NULL) THEN
        WITH said AS MATERIALIZED (
            SELECT i.* FROM json_to_recordset(p_polls) AS i(id bigint, turn int, message text)
            WHERE i.message IS NOT NULL
        ), held AS MATERIALIZED (
            SELECT t.id, s.message FROM said s JOIN task t ON t.id = s.id
            WHERE t.state = 'working' AND t.lease_until = 'infinity' AND t.cancel_requested_at IS NULL
              AND EXISTS (SELECT FROM deferred d
                          WHERE d.task_id = s.id AND d.turn = s.turn AND d.poll_at IS NOT NULL)
            ORDER BY t.id FOR UPDATE OF t
        )
        UPDATE task t SET message = left(h.message, 1024) FROM held h WHERE t.id = h.id;
    END IF;
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT * FROM json_to_recordset(p_polls)
            AS i(id bigint, turn int, status text, poll_ms int, delay_ms int)
    ), kept AS MATERIALIZED (
        SELECT d.id, g.status, g.poll_ms, g.delay_ms FROM given g JOIN deferred d ON d.task_id = g.id
        WHERE d.turn = g.turn AND d.poll_at > clock_timestamp()
        ORDER BY d.task_id FOR UPDATE OF d
    )
    UPDATE deferred d SET status = k.status, poll_ms = k.poll_ms,
           poll_at = clock_timestamp() + k.delay_ms * interval '1 millisecond'
    FROM kept k WHERE d.id = k.id RETURNING d.task_id;
END $$;

-- Records that the server's task is over, so that it is not polled again: 'completed', 'failed' or 'cancelled', or
-- 'unknown' if the server does not know it any more. Returns false if another worker has taken the poll.
CREATE OR REPLACE FUNCTION end_poll(p_id bigint, p_turn int, p_status text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM task WHERE id = p_id FOR UPDATE;
    UPDATE deferred SET status = p_status, poll_at = NULL, cancel_at = NULL, running_since = NULL
    WHERE task_id = p_id AND turn = p_turn AND poll_at IS NOT NULL;
    RETURN FOUND;
END $$;

-- As fault(), for a deferred call whose server's task is over.
CREATE OR REPLACE FUNCTION fault_deferred(p_id bigint, p_epoch int, p_turn int, p_status text, p_error text,
                                          p_message text, p_kind text, p_who text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN end_poll(p_id, p_turn, p_status) AND fault(p_id, p_epoch, p_error, p_message, p_kind, p_who);
END $$;

-- As lose(), for a deferred call whose server's task cannot be found any more, so that its outcome is unknown.
CREATE OR REPLACE FUNCTION lose_deferred(p_id bigint, p_epoch int, p_turn int, p_told text, p_seconds float8,
                                         p_who text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT cancel_requested_at INTO held FROM task
    WHERE id = p_id AND lease_epoch = p_epoch AND lease_until = 'infinity' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF held.cancel_requested_at IS NOT NULL THEN
        RETURN cancel_deferred(p_id, p_epoch, p_turn, 'unknown', th_words('cancelled_unconfirmed'), p_who);
    END IF;
    IF NOT end_poll(p_id, p_turn, 'unknown') THEN
        RETURN false;
    END IF;
    PERFORM th_lose(p_id, 'task_lost', p_told, p_told, p_seconds);
    RETURN true;
END $$;

-- Ends a deferred call as cancelled. Its server's task was cancelled: as requested, or by the server itself.
CREATE OR REPLACE FUNCTION cancel_deferred(p_id bigint, p_epoch int, p_turn int, p_status text, p_message text,
                                           p_who text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('th.who', p_who, true);
    IF NOT end_poll(p_id, p_turn, p_status) THEN
        RETURN false;
    END IF;
    UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = p_id AND state = 'open';
    UPDATE task SET state = 'cancelled', message = left(p_message, 1024), ended_at = clock_timestamp(),
           cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()), lease_until = NULL,
           upstream_state = NULL
    WHERE id = p_id AND lease_epoch = p_epoch AND ended_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM th_close_attempt(p_id, p_epoch, 'cancelled', '');
    RETURN true;
END $$;

-- Opens questions of the server's task (ask). If p_questions is null, closes the open ones without an answer: the
-- server wants none any more. Returns false if another worker has taken the poll.
CREATE OR REPLACE FUNCTION ask_deferred(p_id bigint, p_epoch int, p_turn int, p_questions json, p_message text,
                                        p_delay_ms int, p_who text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('th.who', p_who, true);
    PERFORM 1 FROM task WHERE id = p_id AND lease_epoch = p_epoch AND lease_until = 'infinity' FOR UPDATE;
    IF NOT FOUND
       OR NOT EXISTS (SELECT FROM deferred WHERE task_id = p_id AND turn = p_turn AND poll_at IS NOT NULL) THEN
        RETURN false;
    END IF;
    IF p_questions IS NULL THEN
        UPDATE question SET state = 'superseded', closed_at = clock_timestamp()
        WHERE task_id = p_id AND state = 'open';
        UPDATE task SET state = 'working', message = left(p_message, 1024)
        WHERE id = p_id AND state = 'input_required';
    ELSE
        PERFORM ask(p_id, p_epoch, p_questions, NULL, p_message, true, NULL, p_who);
    END IF;
    UPDATE deferred SET status = CASE WHEN p_questions IS NULL THEN 'working' ELSE 'input_required' END,
           poll_at = clock_timestamp() + p_delay_ms * interval '1 millisecond'
    WHERE task_id = p_id AND poll_at IS NOT NULL;
    RETURN true;
END $$;

-- Cancels deferred calls whose cancellation no worker has carried out in time, because none reaches the server. Workers
-- go on trying to cancel the servers' tasks for an hour. Returns how many calls it ended. For the sweep.
CREATE OR REPLACE FUNCTION th_sweep_deferred(p_before timestamptz, p_limit int) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off AS $$
DECLARE
    t record;
    changed int := 0;
BEGIN
    FOR t IN
        SELECT w.id, w.lease_epoch FROM task w
        WHERE w.id = ANY (ARRAY(
            SELECT d.task_id FROM deferred d JOIN task c ON c.id = d.task_id AND c.ended_at IS NULL
            WHERE d.cancel_at < p_before ORDER BY d.cancel_at LIMIT p_limit))
        ORDER BY w.id FOR UPDATE SKIP LOCKED
    LOOP
        changed := changed + 1;
        UPDATE question SET state = 'superseded', closed_at = clock_timestamp()
        WHERE task_id = t.id AND state = 'open';
        UPDATE task SET state = 'cancelled', message = th_words('cancelled_unconfirmed'),
               ended_at = clock_timestamp(), lease_until = NULL, upstream_state = NULL WHERE id = t.id;
        PERFORM th_close_attempt(t.id, t.lease_epoch, 'cancelled', '');
    END LOOP;
    UPDATE deferred SET status = 'unknown', poll_at = NULL, cancel_at = NULL, running_since = NULL
    WHERE id = ANY (ARRAY(SELECT d.id FROM deferred d WHERE d.cancel_at < p_before - interval '1 hour'
                          ORDER BY d.cancel_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    RETURN changed;
END $$;

-- Trigger of `task`, for deferred calls: updates `deferred` when the task changes, whatever changes it. The time during
-- which people are asked does not count as running. The server's task is to be cancelled when cancellation of the task
-- is requested, or when the task ends before the server's task.
CREATE OR REPLACE FUNCTION deferred_follows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = 'finished' THEN
        UPDATE deferred SET status = 'completed', poll_at = NULL, cancel_at = NULL, running_since = NULL
        WHERE task_id = NEW.id AND poll_at IS NOT NULL;
        RETURN NULL;
    END IF;
    UPDATE deferred SET
        ran_seconds = ran_seconds + coalesce(extract(epoch FROM clock_timestamp() - running_since), 0),
        running_since = CASE WHEN NEW.state = 'working' THEN clock_timestamp() END,
        cancel_at = CASE WHEN NEW.ended_at IS NOT NULL OR NEW.cancel_requested_at IS NOT NULL
                         THEN coalesce(cancel_at, clock_timestamp()) END,
        poll_at = CASE WHEN NEW.state = 'input_required' AND NEW.cancel_requested_at IS NULL THEN poll_at
                       ELSE clock_timestamp() END
    WHERE task_id = NEW.id AND poll_at IS NOT NULL;
    IF FOUND AND (NEW.state <> 'input_required' OR NEW.cancel_requested_at IS NOT NULL) THEN
        PERFORM pg_notify('taskhub', 'd');
    END IF;
    RETURN NULL;
END $$;

-- Trigger of `question`: an answer, or an error in its place, to a question of a server's task is sent soon.
CREATE OR REPLACE FUNCTION deferred_answered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE deferred SET poll_at = clock_timestamp() WHERE task_id = NEW.task_id AND poll_at IS NOT NULL;
    IF FOUND THEN
        PERFORM pg_notify('taskhub', 'd');
    END IF;
    RETURN NULL;
END $$;
