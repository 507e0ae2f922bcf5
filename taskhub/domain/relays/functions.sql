-- Requests that web processes hand to workers, and resources that workers follow. Rows live for seconds, or as long as
-- a stream, and are worth nothing after a crash: their tables are unlogged. Python calls these functions from
-- taskhub/domain/relays/writes.py and interests.py, which document what each promises.

-- Adds a request for a worker and returns ''. Adds nothing and returns 'no worker' if no worker is alive, 'too many' if
-- the context has p_most requests under way. The commit does not wait for the disk: checks of foreign keys write to
-- logged tables, and a NOTIFY holds up all others until its commit is on disk.
CREATE OR REPLACE FUNCTION add_relay(p_id bigint, p_context bigint, p_server bigint, p_method text, p_params text,
                             p_capabilities text, p_seconds float8, p_most int)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    IF NOT EXISTS (SELECT FROM worker AS w WHERE th_alive(w)) THEN
        RETURN 'no worker';
    END IF;
    IF (SELECT count(*) FROM relay WHERE context_id = p_context AND deadline > clock_timestamp()) >= p_most THEN
        RETURN 'too many';
    END IF;
    INSERT INTO relay (id, context_id, server_id, method, params, capabilities, deadline)
    VALUES (p_id, p_context, p_server, p_method, p_params::json, p_capabilities::json,
            clock_timestamp() + make_interval(secs => p_seconds));
    PERFORM pg_notify('taskhub', 'q ' || p_server || ' ' || p_id);
    RETURN '';
END $$;

-- Claims waiting requests for the worker, oldest first: for each server in p_servers, at most as many as its entry in
-- p_free says.
CREATE OR REPLACE FUNCTION claim_relays(p_worker text, p_servers bigint[], p_free int[])
RETURNS TABLE (id bigint, server_id bigint, server_name text, method text, params text, capabilities text,
               seconds float8, context_id bigint)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN QUERY
        WITH chosen AS MATERIALIZED (
            SELECT w.id FROM unnest(p_servers, p_free) AS s(id, free)
            CROSS JOIN LATERAL (
                SELECT r.id FROM relay r
                WHERE r.server_id = s.id AND r.state = 'waiting' AND r.deadline > clock_timestamp()
                  -- Only the worker with the client's session can read what the client keeps at the server.
                  AND NOT EXISTS (SELECT FROM upstream_session u
                                  WHERE u.server_id = r.server_id AND u.context_id = r.context_id
                                    AND u.ended_at IS NULL AND u.worker <> p_worker AND th_lives(u.worker))
                ORDER BY r.created_at LIMIT s.free FOR UPDATE SKIP LOCKED
            ) w
        )
        UPDATE relay r SET state = 'running', worker = p_worker FROM chosen c, server s
        WHERE r.id = c.id AND s.id = r.server_id
        RETURNING r.id, r.server_id, s.name::text, r.method::text, r.params::text, r.capabilities::text,
                  extract(epoch FROM r.deadline - clock_timestamp())::float8, r.context_id;
END $$;

-- Stores the outcome and wakes the waiting caller. Returns false if the caller has left.
CREATE OR REPLACE FUNCTION finish_relay(p_id bigint, p_worker text, p_outcome text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE relay SET state = 'done', outcome = p_outcome::json
    WHERE id = p_id AND state = 'running' AND worker = p_worker;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM pg_notify('taskhub', 'a ' || p_id);
    RETURN true;
END $$;

-- Adds or renews the interests of a holder (a stream). If some are new, notifies the workers and returns true.
CREATE OR REPLACE FUNCTION follow(p_holder text, p_servers bigint[], p_uris text[], p_seconds float8) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    fresh boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH wanted AS (
        INSERT INTO interest (holder, server_id, uri, expires_at)
        SELECT p_holder, w.server, w.uri, clock_timestamp() + make_interval(secs => p_seconds)
        FROM unnest(p_servers, p_uris) AS w(server, uri) ORDER BY w.server, w.uri
        ON CONFLICT (holder, server_id, uri) DO UPDATE SET expires_at = excluded.expires_at
        -- xmax is 0 in a row that this statement inserted.
        RETURNING (xmax = 0) AS made
    )
    SELECT coalesce(bool_or(made), false) INTO fresh FROM wanted;
    IF fresh THEN
        PERFORM pg_notify('taskhub', 'i');
    END IF;
    RETURN fresh;
END $$;

-- Marks resources as followed, because the server has agreed to notify of their changes, and wakes the streams that
-- waited for this. Returns the number of these streams.
CREATE OR REPLACE FUNCTION mark_followed(p_server bigint, p_uris text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    holders text[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH marked AS (
        UPDATE interest SET followed_at = clock_timestamp()
        WHERE server_id = p_server AND uri = ANY (p_uris) AND followed_at IS NULL RETURNING holder
    )
    SELECT array_agg(DISTINCT holder) INTO holders FROM marked;
    PERFORM pg_notify('taskhub', 'f ' || h) FROM unnest(holders) AS h;
    RETURN coalesce(cardinality(holders), 0);
END $$;
