-- Whether a worker is alive: it has not ended, and its last heartbeat is at most 30 s old. It sends one every 5 s.
CREATE OR REPLACE FUNCTION th_alive(w worker) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT w.stopped_at IS NULL AND w.heartbeat_at > statement_timestamp() - interval '30 seconds'
$$;
