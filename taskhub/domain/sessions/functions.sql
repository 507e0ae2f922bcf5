-- Sessions of the protocol revisions of 2025, and the outbound requests that their streams send.

-- Starts a session for the context and returns its id. If the context has p_most live sessions, ends those that were
-- unused for longest.
CREATE OR REPLACE FUNCTION start_session(p_public_id text, p_tenant bigint, p_context bigint, p_version text,
                                 p_client_info jsonb, p_client_capabilities jsonb, p_most int) RETURNS bigint
LANGUAGE sql AS $$
    UPDATE session SET ended_at = clock_timestamp() WHERE id = ANY (ARRAY(
        SELECT id FROM session WHERE context_id = p_context AND ended_at IS NULL
        ORDER BY seen_at DESC OFFSET p_most - 1 FOR UPDATE SKIP LOCKED));
    INSERT INTO session (public_id, tenant_id, context_id, version, client_info, client_capabilities)
    VALUES (p_public_id, p_tenant, p_context, p_version, p_client_info, p_client_capabilities) RETURNING id
$$;

-- Whether a web process serves the stream. While a process serves it, the process updates `seen_at`. False if the
-- client has cancelled the request of the stream.
CREATE OR REPLACE FUNCTION th_served(s stream) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT s.attached AND s.closed_at IS NULL AND NOT s.cancelled
       AND s.seen_at > clock_timestamp() - interval '25 seconds'
$$;

-- What a client has to be able to do to answer a request: the request's method, with ':url' for an elicitation that
-- opens a page, because clients may know forms and no pages.
CREATE OR REPLACE FUNCTION th_way(o outbound) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT o.method || CASE WHEN o.params ->> 'mode' = 'url' THEN ':url' ELSE '' END
$$;

-- Returns the outbound requests that the stream is to send now, and assigns them to it (B25-15): those of its task or,
-- for a session's own stream (kind 'listen'), those of all tasks of the session for which no other stream is served.
-- A request that is assigned to another stream moves to this one if that stream is no longer served, or if this one has
-- just been opened or resumed (p_first): the client listens at its newest stream of a task or session, and a stream
-- whose process was killed still looks served for a while. Even with p_first, a request does not move if the session's
-- own stream is served and has sent it: otherwise a client that asks for the result after that would be asked twice.
-- If this stream was resumed, requests that it had sent before are sent again only if their ids are above p_after.
-- Another session of the same caller gets a request if no stream of the first session is served, if it waits for the
-- task and only the first session's own stream has the request, or if it asks for the task's result, because the first
-- session may only look alive. It gets only requests whose th_way is in p_methods, because its client can answer these,
-- and no request about a task that the client of the first session hosts.
-- Returns no row if the stream has ended, or if another process serves it. Otherwise the first row has no id: r_method
-- is 'active' or 'idle', and r_params is the number of seconds until a further request is due. Of a session's own
-- streams, and of those that wait for the result of one task, only the newest is active, so that nothing is sent twice.
CREATE OR REPLACE FUNCTION deliver(p_stream bigint, p_attach int, p_first boolean, p_after bigint, p_methods text[])
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
        SELECT 1 FROM stream s
        WHERE s.session_id = mine.session_id AND s.kind = 'listen' AND s.id > p_stream AND th_served(s))
        OR mine.kind = 'result' AND EXISTS (
        SELECT 1 FROM stream s WHERE s.task_id = mine.task_id AND s.session_id = mine.session_id AND s.kind = 'result'
        AND s.id > p_stream AND th_served(s))
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
          AND (s.session_id = mine.session_id
               OR mine.kind = 'result' AND th_way(o) = ANY (p_methods) AND o.method NOT LIKE 'tasks/%')
          AND (mine.kind <> 'listen' OR s.kind = 'listen')
          AND NOT (mine.kind <> 'listen' AND s.kind = 'listen' AND s.session_id = mine.session_id
                   AND o.sent_at IS NOT NULL AND th_served(s));
    END IF;
    FOR taken IN
        SELECT o.id, o.stream_id FROM outbound o LEFT JOIN stream s ON s.id = o.stream_id
        WHERE o.state = 'open' AND o.due_at <= clock_timestamp() AND o.task_id = ANY (tasks)
          AND (th_way(o) = ANY (p_methods) OR s.session_id = mine.session_id
               OR EXISTS (SELECT 1 FROM task t WHERE t.id = o.task_id AND t.session_id = mine.session_id))
          AND CASE WHEN o.stream_id = p_stream THEN o.sent_at IS NULL OR p_first AND o.id > p_after
                   ELSE o.stream_id IS NULL OR NOT th_served(s)
                        OR mine.kind <> 'listen' AND s.kind = 'listen' AND s.session_id <> mine.session_id
                        AND o.method NOT LIKE 'tasks/%' END
        ORDER BY o.id
    LOOP
        -- If another stream has taken the request meanwhile, no row is found here.
        UPDATE outbound o SET stream_id = p_stream, sent_at = clock_timestamp() FROM question q
        WHERE o.id = taken.id AND o.state = 'open' AND o.stream_id IS NOT DISTINCT FROM taken.stream_id
          AND q.id = o.question_id AND q.state = 'open'
        RETURNING o.id, o.method, o.params::text INTO r_id, r_method, r_params;
        IF FOUND THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;

-- Stores and records what the client said to the request to open the page of a question: accept, decline or cancel, or
-- refused for an error, whose message is p_reason. The question stays open. If the client accepts, its session is
-- notified when the question is closed. Returns whether the answer counts: only the client's first does, and only while
-- the question is open.
CREATE OR REPLACE FUNCTION answer_page(p_task bigint, p_question bigint, p_verdict text, p_reason text, p_who text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    owner record;
    asked record;
    why text := p_reason;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT tenant_id, context_id, tool_name INTO owner FROM task WHERE id = p_task AND ended_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT q.id, q.key, q.kind, coalesce(o.sent_at, q.opened_at) AS at, o.state, o.stream_id INTO asked
    FROM question q LEFT JOIN outbound o ON o.question_id = q.id AND o.page
    WHERE q.id = p_question AND q.task_id = p_task AND q.state = 'open';
    IF NOT FOUND OR asked.state NOT IN ('open', 'offered') THEN
        RETURN false;
    END IF;
    -- If the client learned of the page by a poll, there is no request yet.
    INSERT INTO outbound (task_id, question_id, page, method, params, state, closed_at)
    VALUES (p_task, asked.id, true, 'elicitation/create', '{}',
            CASE WHEN p_verdict = 'accept' AND asked.stream_id IS NOT NULL THEN 'accepted' ELSE 'answered' END,
            clock_timestamp())
    ON CONFLICT (question_id, page, step) DO UPDATE SET state = excluded.state, closed_at = excluded.closed_at;
    -- As in answer(): nobody reads within a second.
    IF why = '' AND p_verdict IN ('decline', 'cancel') AND clock_timestamp() < asked.at + interval '1 second' THEN
        why := th_words('programs_no');
    END IF;
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, target, reason, after)
    VALUES (owner.tenant_id, p_task, 'question.page.' || p_verdict, coalesce(th_who('name'), session_user),
            coalesce(th_who('door'), 'sql'), coalesce(th_who('address'), ''), owner.context_id, owner.tool_name,
            left(why, 1024), jsonb_build_object('key', asked.key, 'kind', asked.kind));
    UPDATE task SET version = version + 1 WHERE id = p_task;
    RETURN true;
END $$;
