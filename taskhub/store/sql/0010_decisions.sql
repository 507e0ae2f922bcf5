-- What is decided is what runs: a task keeps the digest of the tool's definition as its caller was offered
-- it, an approval the definition that people were shown, and the events of both name the digests.
-- Functions are versioned by name and never edited after a release. Those that are replaced here
-- (create_tasks_v2, ask_v1, answer_v1) stay until the release after, for processes of before.

-- What was called, as an event keeps it. `came_along`: of answers that came with the call.
CREATE FUNCTION th_digests(arguments bytea, definition bytea, came_along jsonb DEFAULT NULL) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'arguments_sha256', encode(arguments, 'hex'), 'definition_sha256', encode(definition, 'hex'),
        'answers_sha256', encode(sha256(convert_to(came_along::text, 'UTF8')), 'hex')))
$$;

CREATE OR REPLACE FUNCTION task_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
        NEW.arguments_digest, NEW.tool_digest, NEW.created_at)
       IS DISTINCT FROM
       (OLD.id, OLD.public_id, OLD.tenant_id, OLD.context_id, OLD.tool_id, OLD.tool_name, OLD.revision,
        OLD.arguments_digest, OLD.tool_digest, OLD.created_at)
       OR NEW.arguments IS DISTINCT FROM OLD.arguments OR NEW.answers IS DISTINCT FROM OLD.answers
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

CREATE OR REPLACE FUNCTION task_record() RETURNS trigger LANGUAGE plpgsql
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
               || th_digests(n.arguments_digest, n.tool_digest, n.answers)
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

-- A question is closed once; what was asked, and shown with it, never changes.
CREATE OR REPLACE FUNCTION question_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state <> 'open' OR
       (NEW.task_id, NEW.tenant_id, NEW.key, NEW.kind, NEW.params::text, NEW.audience, NEW."group", NEW.quorum,
        NEW.opened_at, NEW.definition::text, NEW.definition_digest)
       IS DISTINCT FROM
       (OLD.task_id, OLD.tenant_id, OLD.key, OLD.kind, OLD.params::text, OLD.audience, OLD."group", OLD.quorum,
        OLD.opened_at, OLD.definition::text, OLD.definition_digest)
    THEN
        RAISE EXCEPTION 'question % is % and stays as it is', OLD.key, OLD.state USING ERRCODE = 'TH006';
    END IF;
    RETURN NEW;
END $$;

-- An approval is about the tool as it is defined at this moment: kept with it, to be shown, to be
-- compared when the task is claimed, and named by the event of the decision.
CREATE FUNCTION th_open_questions_v2(p_task bigint, p_tenant bigint, p_questions json, p_live boolean)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO question (task_id, tenant_id, key, upstream_key, kind, params, audience, "group", quorum, live, due_at,
                          definition, definition_digest)
    SELECT p_task, p_tenant, q ->> 'key', coalesce(q ->> 'upstream_key', ''), q ->> 'kind', q -> 'params',
           q ->> 'audience', coalesce(q ->> 'group', ''), coalesce((q ->> 'quorum')::int, 1), p_live,
           clock_timestamp() + make_interval(secs => coalesce((q ->> 'due_seconds')::float8, 86400)),
           o.definition, decode(nullif(o.digest, ''), 'hex')
    FROM json_array_elements(p_questions) q LEFT JOIN task t ON q ->> 'kind' = 'approval' AND t.id = p_task
        LEFT JOIN tool o ON o.id = t.tool_id
$$;

-- As create_tasks_v2, and keeps the digest of the tool's definition.
CREATE FUNCTION create_tasks_v3(p_wanted json, p_who text)
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
                arguments jsonb, digest text, tool_digest text, answers jsonb, questions json, message text, ttl_ms bigint, poll_ms int,
                key text, client_info jsonb, client_capabilities jsonb, trace jsonb, rerun_of bigint,
                max_attempts int, at_least_once boolean, run_seconds int,
                session bigint, request_id text, progress_token text, handle boolean, client_task_id text, keep_ms bigint)
        ), made AS (
            INSERT INTO task (public_id, tenant_id, context_id, tool_id, tool_name, revision, arguments,
                              arguments_digest, tool_digest, answers, state, message, ttl_ms, expires_at, poll_interval_ms,
                              idempotency_key, client_info, client_capabilities, trace, rerun_of_id, max_attempts,
                              at_least_once, run_seconds, session_id, request_id, progress_token, handle,
                              client_task_id, keep_ms, created_at, updated_at)
            SELECT public_id, tenant, context, tool, tool_name, revision, arguments, decode(digest, 'hex'), decode(nullif(tool_digest, ''), 'hex'), answers,
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
            PERFORM th_open_questions_v2(made.id, made.tenant, made.questions, false);
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

-- As answer_v1, and its event names the digests of what was decided.
CREATE FUNCTION answer_v2(p_task bigint, p_key text, p_response text, p_verdict text, p_reason text,
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
    SELECT id, state, lease_until, arguments_digest, tool_digest, tenant_id, context_id, tool_name INTO owner
    FROM task WHERE id = p_task FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    SELECT id, state, quorum, kind, "group", definition_digest INTO asked FROM question WHERE task_id = p_task AND key = p_key;
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
            owner.tool_name, left(p_reason, 1024), jsonb_build_object('key', p_key, 'kind', asked.kind)
            || th_digests(owner.arguments_digest, coalesce(asked.definition_digest, owner.tool_digest)));
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

-- As ask_v1. `p_given` are answers that came with the call and fit questions opened here: an array of
-- {key, response, verdict}. They are the client's decisions, stored and recorded like every other; where
-- nothing is left open the task is runnable again.
CREATE FUNCTION ask_v2(p_id bigint, p_epoch int, p_questions json, p_upstream_state text, p_message text,
                       p_live boolean, p_given json, p_who text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    owner record;
    given record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT tenant_id, context_id, cancel_requested_at INTO owner FROM task
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
    PERFORM th_open_questions_v2(p_id, owner.tenant_id, p_questions, p_live);
    UPDATE task SET state = 'input_required', message = left(p_message, 1024), version = version + 1,
           upstream_state = CASE WHEN p_live THEN upstream_state ELSE p_upstream_state END,
           lease_until = CASE WHEN p_live THEN lease_until END
    WHERE id = p_id;
    IF NOT p_live THEN
        PERFORM th_close_attempt(p_id, p_epoch, 'asked', '');
    END IF;
    FOR given IN SELECT g ->> 'key' AS key, g ->> 'response' AS response, g ->> 'verdict' AS verdict, c.name
                 FROM json_array_elements(coalesce(p_given, '[]')) g JOIN auth_context c ON c.id = owner.context_id
    LOOP
        PERFORM answer_v2(p_id, given.key, given.response, given.verdict, 'Came with the call', NULL, owner.context_id, NULL,
            json_build_object('name', given.name, 'door', 'client', 'context_id', owner.context_id)::text);
    END LOOP;
    RETURN true;
END $$;


-- Whether calls of this client may run: nobody locked it out, and behind a program that a person signed in
-- there still are the person, their role, their consent and the program. (`identity.principals._of_oauth` says
-- the same of its tokens.)
CREATE FUNCTION th_may_call_v1(client auth_context) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT client.disabled_at IS NULL AND (client.issuer <> 'taskhub/oauth' OR EXISTS (
        SELECT FROM auth_user u
        JOIN membership m ON m.user_id = u.id AND m.tenant_id = client.tenant_id
        JOIN oauth2_provider_application r ON r.client_id = client.client_id
        JOIN application a ON a.registration_id = r.id AND a.tenant_id = m.tenant_id AND a.blocked_at IS NULL
        JOIN consent s ON s.application_id = a.id AND s.user_id = u.id
        WHERE u.is_active AND 'user:' || u.id = client.subject))
$$;

-- Of tasks that a worker is about to take: those that must not run as they are, and why. An approval holds
-- for the definition that was shown with it; one from before definitions were kept, for a tool that has
-- not changed since it was asked. A rule that let a call through did so by the definition of that moment.
CREATE FUNCTION th_unfit_v1(p_ids bigint[])
RETURNS TABLE (r_id bigint, r_reason text, r_why text, r_approval bigint)
LANGUAGE sql STABLE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT t.id, CASE
               WHEN NOT may.call THEN 'client_locked_out'
               WHEN NOT o.enabled THEN 'tool_turned_off'
               WHEN o.rejected <> '' OR may.gone THEN 'tool_not_offered'
               ELSE 'tool_changed' END,
           CASE
               WHEN NOT may.call THEN 'its client has been locked out'
               WHEN NOT o.enabled THEN 'the tool has been turned off'
               WHEN o.rejected <> '' THEN 'the tool is not offered any more: ' || o.rejected
               WHEN may.gone THEN 'the tool is not offered any more'
               WHEN a.id IS NULL THEN 'the tool has changed since it was called'
               ELSE 'the tool has changed since the call was approved' END,
           a.id
    FROM task t JOIN tool o ON o.id = t.tool_id JOIN auth_context c ON c.id = t.context_id
    LEFT JOIN LATERAL (
        SELECT q.id, CASE WHEN q.definition_digest IS NULL THEN o.changed_at > q.opened_at
                          ELSE q.definition_digest <> decode(o.digest, 'hex') END AS outdated
        FROM question q WHERE q.task_id = t.id AND q.kind = 'approval' AND q.state = 'answered'
        ORDER BY q.id DESC LIMIT 1) AS a ON true
    CROSS JOIN LATERAL (
        SELECT th_may_call_v1(c) AS call,
               -- A call that nobody approved goes to the server, which knows best what it has.
               a.id IS NOT NULL AND o.gone_at IS NOT NULL AS gone,
               CASE WHEN a.id IS NULL THEN o.approval AND t.tool_digest <> decode(o.digest, 'hex')
                    ELSE a.outdated END AS outdated) AS may
    WHERE t.id = ANY (p_ids) AND (NOT may.call OR NOT o.enabled OR o.rejected <> '' OR may.gone OR may.outdated)
$$;

-- Keeps those from running: asks for approval (again) where the tool has changed since people or a rule let the
-- call through, and faults the others with the reason. The caller holds their locks; returns which they were.
CREATE FUNCTION th_hold_back_v1(p_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    unfit record;
    before record;
    words text;
    held_back bigint[] := '{}';
BEGIN
    FOR unfit IN SELECT u.*, t.tenant_id, t.tool_id, t.lease_epoch FROM th_unfit_v1(p_ids) u JOIN task t ON t.id = u.r_id LOOP
        held_back := held_back || unfit.r_id;
        IF unfit.r_reason = 'tool_changed' THEN
            SELECT 'approval' || CASE WHEN n = 0 THEN '' ELSE '-' || n + 1 END AS key,
                   coalesce(q.params, json_build_object('tool', o.exposed_name, 'server', s.name, 'rule', o.approval_when,
                                                        'changed', true)) AS params,
                   coalesce(q."group", o.approval_group) AS "group", coalesce(q.quorum, o.approval_quorum) AS quorum
            INTO before
            FROM tool o JOIN server s ON s.id = o.server_id LEFT JOIN question q ON q.id = unfit.r_approval
            CROSS JOIN LATERAL (SELECT count(*) AS n FROM question
                                WHERE task_id = unfit.r_id AND kind = 'approval') AS asked
            WHERE o.id = unfit.tool_id;
            PERFORM th_open_questions_v2(unfit.r_id, unfit.tenant_id, json_build_array(json_build_object(
                'key', before.key, 'kind', 'approval', 'params', before.params, 'audience', 'operator',
                'group', before."group", 'quorum', before.quorum)), false);
            UPDATE task SET state = 'input_required',
                   message = 'Waiting for approval' || CASE WHEN before."group" <> '' THEN ' by ' || before."group" ELSE '' END
                             || ', 0 of ' || before.quorum || ': ' || unfit.r_why
            WHERE id = unfit.r_id;
        ELSE
            words := left(CASE WHEN unfit.lease_epoch = 0 THEN 'Not run: ' ELSE 'Not continued: ' END || unfit.r_why, 1024);
            UPDATE task SET state = 'faulted', message = words, ended_at = clock_timestamp(), upstream_state = NULL,
                   error = json_build_object('code', -32603, 'message', words,
                                             'data', json_build_object('reason', unfit.r_reason))::text
            WHERE id = unfit.r_id;
        END IF;
    END LOOP;
    RETURN held_back;
END $$;
