-- Whether a worker or a web process that runs calls in place is heard: it has not ended, and its last heartbeat is at
-- most 30 s old. It sends a heartbeat every 5 s.
CREATE OR REPLACE FUNCTION th_heard(w worker) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT w.stopped_at IS NULL AND w.heartbeat_at > statement_timestamp() - interval '30 seconds'
$$;

-- Whether a worker is alive and takes tasks from the queue, which a web process that runs calls in place does not.
CREATE OR REPLACE FUNCTION th_alive(w worker) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT NOT w.in_place AND w.stopped_at IS NULL
           AND w.heartbeat_at > statement_timestamp() - interval '30 seconds'
$$;

-- Sessions of clients at servers, each in one worker. Python calls these functions from
-- taskhub/domain/workers/sessions.py, which documents what each promises.

-- Whether the worker of this name is alive (th_alive).
CREATE OR REPLACE FUNCTION th_lives(p_worker text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM worker w WHERE w.name = p_worker AND th_alive(w))
$$;

-- Gives the client's session at the server to p_worker, unless another living worker has it. Returns whether p_worker
-- got it, and why the earlier session was lost; empty if none was lost.
CREATE OR REPLACE FUNCTION take_session(p_server bigint, p_context bigint, p_worker text)
RETURNS TABLE (granted boolean, lost text) LANGUAGE plpgsql AS $$
DECLARE
    held upstream_session;
BEGIN
    INSERT INTO upstream_session (server_id, context_id, worker) VALUES (p_server, p_context, p_worker)
    ON CONFLICT (server_id, context_id) DO NOTHING;
    granted := FOUND;
    lost := '';
    IF NOT granted THEN
        SELECT * INTO held FROM upstream_session s WHERE s.server_id = p_server AND s.context_id = p_context FOR UPDATE;
        granted := held.ended_at IS NOT NULL OR held.worker = p_worker OR NOT th_lives(held.worker);
        IF granted THEN
            lost := CASE WHEN held.ended_at IS NOT NULL THEN held.why
                         WHEN held.worker <> p_worker THEN th_words('session_worker_lost') ELSE '' END;
            UPDATE upstream_session s SET worker = p_worker, opened_at = clock_timestamp(), ended_at = NULL, why = '',
                   pid = NULL, memory = NULL
            WHERE s.id = held.id;
        END IF;
    END IF;
    RETURN NEXT;
END $$;
