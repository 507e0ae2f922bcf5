-- Claims that a lock for a foreign key does not hide: whoever opens a stream on a task in the moment
-- it is made holds one (FOR KEY SHARE), and FOR UPDATE would skip the task. Functions are versioned by
-- name and never edited after a release.

DROP FUNCTION claim_tasks_v1(text, int, float8, int, timestamptz, text);

-- At most p_limit runnable tasks become this worker's, oldest first. A context that already runs
-- p_per_context tasks waits its turn. `r_more` tells whether more could run as soon as a task ends;
-- `r_skipped` that somebody held the lock of a task that waits for nothing else, so look again soon.
-- Where nothing was taken, a row of nulls says both.
-- `r_since` is where the next claim may start (p_since): what is still queued is not older. A drained
-- backlog leaves pages of dead entries at the start of the index until the next vacuum, and every
-- claim would walk over all of them. Now and then a claim must start from the beginning (null), for
-- what was locked or committed late.
CREATE FUNCTION claim_tasks_v2(p_worker text, p_limit int, p_lease_seconds float8, p_per_context int,
                               p_since timestamptz, p_who text)
RETURNS TABLE (id bigint, public_id text, epoch int, tenant_id bigint, server_id bigint, server_name text,
               tool_id bigint, upstream_tool text, arguments text, answers text, upstream_state text,
               client_capabilities text, trace text, question_audience text, run_seconds int,
               r_more boolean, r_since timestamptz, r_skipped boolean)
-- Its plan may be made, and kept, while the table is still empty: never a whole scan. And no
-- bitmap scan, because only a plain index scan marks the entries of ended leases as dead.
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    chosen bigint[] := '{}';
    batch bigint[];
    seen bigint;
    latest timestamptz;
    full_contexts bigint[];
    more boolean;
    skipped boolean := false;
    start timestamptz := coalesce(p_since - interval '1 second', '-infinity');
BEGIN
    PERFORM set_config('th.who', p_who, true);
    LOOP
        -- What each context runs is counted once per round, not once per candidate.
        -- Ordered and compared by lease_until, so that the scan stays on the index of leases.
        WITH leased AS MATERIALIZED (
            SELECT context_id FROM task WHERE lease_until > '-infinity' ORDER BY lease_until
        ), held AS MATERIALIZED (
            SELECT context_id, count(*) AS running FROM leased GROUP BY context_id
        ), full_up AS MATERIALIZED (
            SELECT context_id FROM held WHERE running >= p_per_context
        ), free AS MATERIALIZED (
            SELECT t.id, t.context_id, t.runnable_at FROM task t
            WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL
              AND t.runnable_at BETWEEN start AND clock_timestamp() AND t.context_id NOT IN (SELECT context_id FROM full_up)
            ORDER BY t.runnable_at, t.id LIMIT p_limit - cardinality(chosen) FOR NO KEY UPDATE OF t SKIP LOCKED
        ), placed AS (
            SELECT f.id, f.runnable_at, coalesce(h.running, 0)
                   + row_number() OVER (PARTITION BY f.context_id ORDER BY f.runnable_at, f.id) AS place
            FROM free f LEFT JOIN held h ON h.context_id = f.context_id
        )
        SELECT array_agg(p.id) FILTER (WHERE p.place <= p_per_context), count(*), max(p.runnable_at),
               (SELECT array_agg(context_id) FROM full_up)
        INTO batch, seen, latest, full_contexts FROM placed p;
        EXIT WHEN batch IS NULL;
        UPDATE task SET state = 'working', lease_epoch = lease_epoch + 1, worker = p_worker, message = '',
               lease_until = clock_timestamp() + make_interval(secs => p_lease_seconds)
        WHERE task.id = ANY (batch);
        chosen := chosen || batch;
        -- Look again only where a context's own limit left room for others.
        EXIT WHEN cardinality(batch) = seen OR cardinality(chosen) >= p_limit;
    END LOOP;
    more := cardinality(chosen) >= p_limit OR full_contexts IS NOT NULL AND EXISTS (
        SELECT 1 FROM task t WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL
            AND t.runnable_at <= clock_timestamp() AND t.context_id = ANY (full_contexts));
    IF cardinality(chosen) < p_limit THEN
        skipped := EXISTS (
            SELECT 1 FROM task t WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL
              AND t.runnable_at BETWEEN start AND clock_timestamp()
              AND t.context_id <> ALL (coalesce(full_contexts, '{}')));
    END IF;
    IF cardinality(chosen) = 0 THEN
        IF more OR skipped THEN
            r_more := more;
            r_skipped := skipped;
            RETURN NEXT;
        END IF;
        RETURN;
    END IF;
    INSERT INTO attempt (task_id, number, worker, started_at)
    SELECT t.id, t.lease_epoch, p_worker, clock_timestamp() FROM task t WHERE t.id = ANY (chosen);
    RETURN QUERY
        SELECT t.id, t.public_id::text, t.lease_epoch, t.tenant_id, s.id, s.name::text, o.id, o.name::text,
               t.arguments::text,
               -- answers of the call itself, then those given to the questions of the latest round
               (coalesce(t.answers, '{}') || coalesce((
                   SELECT jsonb_object_agg(q.upstream_key, q.response::jsonb) FROM question q
                   WHERE q.task_id = t.id AND q.state = 'answered' AND q.upstream_key <> ''
                     AND NOT q.live AND q.id IN (
                         SELECT max(l.id) FROM question l WHERE l.task_id = t.id AND l.state = 'answered'
                         GROUP BY l.upstream_key)), '{}'))::text,
               t.upstream_state::text, t.client_capabilities::text, t.trace::text, o.question_audience::text,
               t.run_seconds, more,
               CASE WHEN full_contexts IS NULL AND NOT skipped AND cardinality(batch) = seen THEN latest END, skipped
        FROM task t JOIN tool o ON o.id = t.tool_id JOIN server s ON s.id = o.server_id
        WHERE t.id = ANY (chosen) ORDER BY t.id;
END $$;
