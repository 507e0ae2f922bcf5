-- Claims that leave room for others. Functions are versioned by name and never edited after a release.
-- claim_tasks_v2 stays beside this one: workers of the version before call it until they are restarted.
-- It goes in the release after.

-- Of every context that runs something: how many more tasks p_worker may give it, zero or less when it
-- is full. p_per_context counts over all workers, p_share over the slots of this one.
-- Ordered and compared by lease_until, so that the scan stays on the index of leases.
CREATE FUNCTION th_rooms(p_worker text, p_per_context int, p_share int) RETURNS TABLE (context_id bigint, room int)
LANGUAGE sql STABLE AS $$
    WITH leased AS MATERIALIZED (
        SELECT t.context_id, t.worker FROM task t WHERE t.lease_until > '-infinity' ORDER BY t.lease_until
    )
    SELECT l.context_id,
           least(p_per_context - count(*), p_share - count(*) FILTER (WHERE l.worker = p_worker))::int
    FROM leased l GROUP BY l.context_id
$$;

-- At most p_limit runnable tasks become this worker's. A context takes part while it runs fewer than
-- p_per_context tasks in all and fewer than p_share on this worker; what it has beyond that waits its turn.
-- Oldest first, in two looks. The first is at the queue as it stands and is all there is to do while
-- nobody is full. Once a context is, its backlog may fill the front of the queue, so the second look goes
-- from context to context, never touching an entry of one that is full: its cost is the number of contexts
-- that wait, not of tasks. It visits at most 200 of them, from a start that changes with every claim.
-- `r_more` tells whether more could run as soon as a task ends; `r_skipped` that somebody held the lock of
-- a task that waits for nothing else, so look again soon. Where nothing was taken, a row of nulls says both.
-- `r_since` is where the next claim may start (p_since): what is still queued is not older. A drained
-- backlog leaves pages of dead entries at the start of the index until the next vacuum, and every
-- claim would walk over all of them. Now and then a claim must start from the beginning (null), for
-- what was locked or committed late.
CREATE FUNCTION claim_tasks_v3(p_worker text, p_limit int, p_lease_seconds float8, p_per_context int, p_share int,
                               p_since timestamptz, p_who text)
RETURNS TABLE (id bigint, public_id text, epoch int, tenant_id bigint, server_id bigint, server_name text,
               tool_id bigint, upstream_tool text, arguments text, answers text, upstream_state text,
               client_capabilities text, trace text, question_audience text, run_seconds int, given text, server_enabled boolean,
               r_more boolean, r_since timestamptz, r_skipped boolean, r_held_back bigint[])
-- Its plan may be made, and kept, while the table is still empty or nothing in it is queued: never a whole
-- scan, no join that reads a whole index, and what is wanted in the order of an index is read from that one
-- and not sorted. And no bitmap scan, because only a plain index scan marks the entries of ended leases as dead.
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    -- A constant of this claim: a bound of the index scans, as a volatile clock could not be.
    moment timestamptz := clock_timestamp();
    start timestamptz := coalesce(p_since - interval '1 second', '-infinity');
    chosen bigint[] := '{}';
    batch bigint[];
    seen bigint;
    again boolean := false;
    latest timestamptz;
    full_contexts bigint[];
    more boolean;
    skipped boolean := false;
    held_back bigint[] := '{}';
BEGIN
    PERFORM set_config('th.who', p_who, true);

    LOOP
        IF NOT again THEN
            -- The first look. Of what it finds and locks, each context keeps what it has room for.
            WITH rooms AS MATERIALIZED (
                SELECT * FROM th_rooms(p_worker, p_per_context, p_share)
            ), full_up AS MATERIALIZED (
                SELECT array_agg(r.context_id) AS contexts FROM rooms r WHERE r.room <= 0
            ), free AS MATERIALIZED (
                SELECT t.id, t.context_id, t.runnable_at FROM task t
                WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL AND t.runnable_at BETWEEN start AND moment
                  AND (SELECT f.contexts FROM full_up f) IS NULL
                ORDER BY t.runnable_at, t.id LIMIT p_limit FOR NO KEY UPDATE OF t SKIP LOCKED
            ), placed AS (
                SELECT f.id, f.runnable_at, row_number() OVER (PARTITION BY f.context_id ORDER BY f.runnable_at, f.id)
                       <= coalesce(r.room, least(p_per_context, p_share)) AS fits
                FROM free f LEFT JOIN rooms r ON r.context_id = f.context_id
            )
            SELECT coalesce(array_agg(p.id) FILTER (WHERE p.fits), '{}'), count(*), max(p.runnable_at),
                   (SELECT f.contexts FROM full_up f)
            INTO batch, seen, latest, full_contexts FROM placed p;
        ELSE
            -- The second look. `waiting` steps through the contexts that have something queued, one entry of the
            -- index each, in the gaps that those which are full leave between them. A context is compared as a
            -- range where `=` would do: then only one index has the order, whatever the statistics say.
            WITH RECURSIVE rooms AS MATERIALIZED (
                SELECT * FROM th_rooms(p_worker, p_per_context, p_share)
            ), edges AS (
                SELECT r.context_id AS stop, r.context_id + 1 AS resume FROM rooms r WHERE r.room <= 0
                UNION ALL SELECT 0, 0
                UNION ALL SELECT m.at, m.at FROM (SELECT floor(random() * max(c.id))::bigint AS at FROM auth_context c) m
            ), gaps AS (
                SELECT e.resume AS low, lead(e.stop, 1, 9223372036854775807) OVER (ORDER BY e.resume, e.stop) AS high
                FROM edges e
            ), waiting AS (
                SELECT g.high, (
                    SELECT t.context_id FROM task t
                    WHERE t.state = 'queued' AND t.context_id >= g.low AND t.context_id < g.high
                    ORDER BY t.context_id, t.runnable_at, t.id LIMIT 1) AS context_id
                FROM gaps g
                UNION ALL
                SELECT w.high, (
                    SELECT t.context_id FROM task t
                    WHERE t.state = 'queued' AND t.context_id > w.context_id AND t.context_id < w.high
                    ORDER BY t.context_id, t.runnable_at, t.id LIMIT 1)
                FROM waiting w WHERE w.context_id IS NOT NULL
            ), turns AS MATERIALIZED (
                SELECT w.context_id, coalesce(r.room, least(p_per_context, p_share)) AS room
                FROM (SELECT * FROM waiting WHERE waiting.context_id IS NOT NULL LIMIT 200) w
                LEFT JOIN rooms r ON r.context_id = w.context_id
            ), found AS MATERIALIZED (
                SELECT o.id, o.runnable_at, c.context_id, c.room FROM turns c CROSS JOIN LATERAL (
                    SELECT t.id, t.runnable_at FROM task t
                    WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL AND t.runnable_at <= moment
                      AND t.context_id BETWEEN c.context_id AND c.context_id
                    ORDER BY t.context_id, t.runnable_at, t.id LIMIT least(c.room, p_limit - cardinality(chosen))) o
            ), locked AS MATERIALIZED (
                -- By id: a state that is compared so is no reason to read an index of what is queued.
                SELECT t.id FROM task t
                WHERE t.id = ANY (ARRAY(SELECT f.id FROM found f))
                  AND coalesce(t.state, '') = 'queued' AND t.cancel_requested_at IS NULL
                ORDER BY t.runnable_at, t.id LIMIT p_limit - cardinality(chosen) FOR NO KEY UPDATE OF t SKIP LOCKED
            ), used_up AS (
                SELECT r.context_id FROM rooms r WHERE r.room <= 0
                UNION ALL
                SELECT f.context_id FROM found f GROUP BY f.context_id, f.room HAVING count(*) >= f.room
            )
            SELECT coalesce((SELECT array_agg(l.id) FROM locked l), '{}'),
                   (SELECT count(*) FROM found), (SELECT array_agg(u.context_id) FROM used_up u)
            INTO batch, seen, full_contexts;
        END IF;
        IF cardinality(batch) > 0 THEN
            -- Calls may have waited for days: some may not run any more (th_hold_back_v1, 0010_decisions.sql).
            held_back := held_back || th_hold_back_v1(batch);
            UPDATE task SET state = 'working', lease_epoch = lease_epoch + 1, worker = p_worker, message = '',
                   lease_until = clock_timestamp() + make_interval(secs => p_lease_seconds)
            WHERE task.id = ANY (batch) AND task.id <> ALL (held_back);
            chosen := chosen || ARRAY(SELECT b.id FROM unnest(batch) AS b(id) WHERE b.id <> ALL (held_back));
        END IF;
        EXIT WHEN again OR full_contexts IS NULL AND cardinality(batch) = seen;
        again := true;
    END LOOP;
    IF again THEN
        skipped := cardinality(batch) < seen AND cardinality(chosen) < p_limit;
    ELSIF cardinality(chosen) < p_limit THEN
        skipped := EXISTS (SELECT 1 FROM task t WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL
                             AND t.runnable_at BETWEEN start AND moment);
    END IF;
    more := cardinality(chosen) >= p_limit OR full_contexts IS NOT NULL AND EXISTS (
        SELECT 1 FROM unnest(full_contexts) AS f(id) CROSS JOIN LATERAL (
            SELECT t.id FROM task t
            WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL AND t.runnable_at <= moment
              AND t.context_id BETWEEN f.id AND f.id
            ORDER BY t.context_id, t.runnable_at, t.id LIMIT 1) o);
    IF cardinality(chosen) = 0 THEN
        IF more OR skipped OR cardinality(held_back) > 0 THEN
            r_more := more;
            r_skipped := skipped;
            r_held_back := held_back;
            RETURN NEXT;
        END IF;
        RETURN;
    END IF;
    INSERT INTO attempt (task_id, number, worker, started_at)
    SELECT t.id, t.lease_epoch, p_worker, clock_timestamp() FROM task t WHERE t.id = ANY (chosen);
    RETURN QUERY
        SELECT t.id, t.public_id::text, t.lease_epoch, t.tenant_id, s.id, s.name::text, o.id, o.name::text,
               t.arguments::text,
               -- the answer given last to each question of the tool
               coalesce((
                   SELECT jsonb_object_agg(q.upstream_key, q.response::jsonb) FROM question q
                   WHERE q.task_id = t.id AND q.state = 'answered' AND q.upstream_key <> ''
                     AND NOT q.live AND q.id IN (
                         SELECT max(l.id) FROM question l WHERE l.task_id = t.id AND l.state = 'answered'
                         GROUP BY l.upstream_key)), '{}')::text,
               t.upstream_state::text, t.client_capabilities::text, t.trace::text, o.question_audience::text,
               t.run_seconds, t.answers::text, s.enabled, more,
               CASE WHEN full_contexts IS NULL AND NOT skipped THEN latest END, skipped, held_back
        FROM task t JOIN tool o ON o.id = t.tool_id JOIN server s ON s.id = o.server_id
        WHERE t.id = ANY (chosen) ORDER BY t.id;
END $$;
