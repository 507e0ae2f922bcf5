-- Claims that lock no more than they take, and look at whoever may not run any more only where there is a
-- sign of it. `claim_tasks_v3` stays, in the new one's words, for workers of the version before.

-- Of tasks that a worker is about to take: those that must not run as they are, and why. An approval holds
-- for the definition that was shown with it; one from before definitions were kept, for a tool that has
-- not changed since it was asked. A rule that let a call through did so by the definition of that moment.
-- Without settings of its own, so that it becomes part of its caller's statement; and every batch passes
-- here, so the long way to a client's rights is gone only where they hang on a person.
CREATE OR REPLACE FUNCTION th_unfit_v1(p_ids bigint[])
RETURNS TABLE (r_id bigint, r_reason text, r_why text, r_approval bigint)
LANGUAGE sql STABLE AS $$
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
        SELECT CASE WHEN c.issuer = 'taskhub/oauth' THEN th_may_call_v1(c) ELSE c.disabled_at IS NULL END AS call,
               -- A call that nobody approved goes to the server, which knows best what it has.
               a.id IS NOT NULL AND o.gone_at IS NOT NULL AS gone,
               CASE WHEN a.id IS NULL THEN o.approval AND t.tool_digest <> decode(o.digest, 'hex')
                    ELSE a.outdated END AS outdated) AS may
    WHERE t.id = ANY (p_ids) AND (NOT may.call OR NOT o.enabled OR o.rejected <> '' OR may.gone OR may.outdated)
$$;

-- At most p_limit runnable tasks become this worker's. A context takes part while it runs fewer than
-- p_per_context tasks in all and fewer than p_share on this worker; what it has beyond that waits its turn.
-- Oldest first, in two looks. The first is at the queue as it stands, for as many as every context has room
-- for: whatever it finds fits, and nothing is locked in vain. Where nobody is full and no more than that is
-- queued, it is all there is to do. Otherwise one context's backlog may fill the front of the queue, so the
-- second look goes from context to context, never touching an entry of one that is full: its cost is the
-- number of contexts that wait, not of tasks. It visits at most 200 of them, from a start that changes with
-- every claim.
-- `r_more` tells whether more could run as soon as a task ends; `r_skipped` that somebody held the lock of
-- a task that waits for nothing else, so look again soon. Where nothing was taken, a row of nulls says both.
-- `r_since` is where the next claim may start (p_since): what is still queued is not older. A drained
-- backlog leaves pages of dead entries at the start of the index until the next vacuum, and every
-- claim would walk over all of them. Now and then a claim must start from the beginning (null), for
-- what was locked or committed late.
CREATE FUNCTION claim_tasks_v4(p_worker text, p_limit int, p_lease_seconds float8, p_per_context int, p_share int,
                               p_since timestamptz, p_who text)
RETURNS TABLE (id bigint, public_id text, epoch int, tenant_id bigint, server_id bigint, server_name text,
               tool_id bigint, upstream_tool text, arguments text, answers text, upstream_state text,
               client_capabilities text, trace text, question_audience text, run_seconds int, given text, server_enabled boolean,
               context_id bigint, r_more boolean, r_since timestamptz, r_skipped boolean, r_held_back bigint[])
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
    look int;
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
            WITH rooms AS MATERIALIZED (
                SELECT * FROM th_rooms(p_worker, p_per_context, p_share)
            ), full_up AS MATERIALIZED (
                SELECT array_agg(r.context_id) FILTER (WHERE r.room <= 0) AS contexts,
                       least(p_limit, p_per_context, p_share, min(r.room)) AS look
                FROM rooms r
            ), free AS MATERIALIZED (
                SELECT t.id, t.runnable_at FROM task t
                WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL AND t.runnable_at BETWEEN start AND moment
                  AND (SELECT f.contexts FROM full_up f) IS NULL
                ORDER BY t.runnable_at, t.id LIMIT (SELECT greatest(f.look, 0) FROM full_up f)
                FOR NO KEY UPDATE OF t SKIP LOCKED
            )
            SELECT coalesce(array_agg(f.id), '{}'), count(*), max(f.runnable_at),
                   (SELECT u.contexts FROM full_up u), (SELECT u.look FROM full_up u)
            INTO batch, seen, latest, full_contexts, look FROM free f;
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
        EXIT WHEN again OR full_contexts IS NULL AND (seen < look OR look = p_limit);
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
               t.run_seconds, t.answers::text, s.enabled, t.context_id, more,
               CASE WHEN full_contexts IS NULL AND NOT skipped THEN latest END, skipped, held_back
        FROM task t JOIN tool o ON o.id = t.tool_id JOIN server s ON s.id = o.server_id
        WHERE t.id = ANY (chosen) ORDER BY t.id;
END $$;

-- Workers of the version before call it until they are restarted.
CREATE OR REPLACE FUNCTION claim_tasks_v3(p_worker text, p_limit int, p_lease_seconds float8, p_per_context int, p_share int,
                                          p_since timestamptz, p_who text)
RETURNS TABLE (id bigint, public_id text, epoch int, tenant_id bigint, server_id bigint, server_name text,
               tool_id bigint, upstream_tool text, arguments text, answers text, upstream_state text,
               client_capabilities text, trace text, question_audience text, run_seconds int, given text, server_enabled boolean,
               r_more boolean, r_since timestamptz, r_skipped boolean, r_held_back bigint[])
LANGUAGE sql AS $$
    SELECT c.id, c.public_id, c.epoch, c.tenant_id, c.server_id, c.server_name, c.tool_id, c.upstream_tool, c.arguments,
           c.answers, c.upstream_state, c.client_capabilities, c.trace, c.question_audience, c.run_seconds, c.given,
           c.server_enabled, c.r_more, c.r_since, c.r_skipped, c.r_held_back
    FROM claim_tasks_v4(p_worker, p_limit, p_lease_seconds, p_per_context, p_share, p_since, p_who) c
$$;
