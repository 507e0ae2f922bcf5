-- Claims: which worker gets which task, and which tasks may not run any more.

-- For each context with running tasks: how many more of its tasks p_worker may take, zero or less if the context is
-- full. p_per_context limits the tasks of a context on all workers, p_share those on p_worker. Read from an index
-- (task_held) that no change of a running task touches.
CREATE OR REPLACE FUNCTION th_rooms(p_worker text, p_per_context int, p_share int)
RETURNS TABLE (context_id bigint, room int)
LANGUAGE sql STABLE AS $$
    WITH leased AS MATERIALIZED (
        SELECT t.context_id, t.worker FROM task t WHERE t.worker <> '' AND t.ended_at IS NULL AND t.lease_until IS NOT NULL
        ORDER BY t.id
    )
    SELECT l.context_id,
           least(p_per_context - count(*), p_share - count(*) FILTER (WHERE l.worker = p_worker))::int
    FROM leased l GROUP BY l.context_id
$$;

-- Whether calls of this client may run: it is not locked out, and for a program that a person signed in, the person,
-- their role, their consent and the program still exist. (`domain.clients.principals._of_oauth` has the same rules for
-- tokens.) Of calls that a person made in the console: the person still has a role that may make a tool run
-- (`core.permissions`).
CREATE OR REPLACE FUNCTION th_may_call(client auth_context) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT client.disabled_at IS NULL AND CASE client.issuer
        WHEN 'taskhub/oauth' THEN EXISTS (
            SELECT FROM auth_user u
            JOIN membership m ON m.user_id = u.id AND m.tenant_id = client.tenant_id
            JOIN oauth2_provider_application r ON r.client_id = client.client_id
            JOIN application a ON a.registration_id = r.id AND a.tenant_id = m.tenant_id AND a.blocked_at IS NULL
            JOIN consent s ON s.application_id = a.id AND s.user_id = u.id
            WHERE u.is_active AND 'user:' || u.id = client.subject)
        WHEN 'taskhub/console' THEN EXISTS (
            SELECT FROM auth_user u
            JOIN membership m ON m.user_id = u.id AND m.tenant_id = client.tenant_id
            WHERE u.is_active AND u.id = th_user_of(client) AND m.role IN ('operator', 'admin'))
        ELSE true END
$$;

-- Why calls of this client to this tool must not run at all; null if they may. Tasks that are created with a lease, and
-- so are never claimed, are checked by it as well (create_tasks).
CREATE OR REPLACE FUNCTION th_why_not(s server, o tool, c auth_context) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN s.removed_at IS NOT NULL THEN 'server_removed'
                WHEN NOT CASE WHEN c.issuer IN ('taskhub/oauth', 'taskhub/console') THEN th_may_call(c)
                              ELSE c.disabled_at IS NULL END THEN 'client_locked_out'
                WHEN NOT o.enabled THEN 'tool_turned_off'
                WHEN o.rejected <> '' THEN 'tool_rejected' END
$$;

-- Whether the tool waits for a person to confirm it.
CREATE OR REPLACE FUNCTION th_unconfirmed(s server, o tool) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT s.review AND o.confirmed_digest <> o.digest
$$;

-- Which of the tasks p_ids must not run as they are if a worker takes them now, and why. An approval is for exactly the
-- call that people saw (th_call_digest), and counts as long as these people may approve it: otherwise people have to be
-- asked again. They also have to be asked if the tool waits for a person to confirm it and nobody has approved this
-- call. As every batch of a claim is checked here, the costly check of a client's rights (th_may_call) is made only if
-- they depend on a person.
CREATE OR REPLACE FUNCTION th_unfit(p_ids bigint[])
RETURNS TABLE (id bigint, tenant_id bigint, tool_id bigint, lease_epoch int, approval bigint, reason text, why text)
LANGUAGE sql STABLE AS $$
    -- The tasks are read first, by their ids alone: a plan made while there were few tasks would begin with the
    -- tool or the client, and read all of its tasks.
    WITH taken AS MATERIALIZED (
        SELECT w.id, w.tenant_id, w.tool_id, w.context_id, w.lease_epoch, w.tool_digest, w.edited FROM task w
        WHERE w.id = ANY (p_ids)
    )
    SELECT t.id, t.tenant_id, t.tool_id, t.lease_epoch, a.id, u.reason,
           CASE u.reason WHEN 'tool_rejected' THEN th_words(u.reason, o.rejected) WHEN 'rejected' THEN ''
                         ELSE th_words(u.reason) END
    FROM taken t JOIN tool o ON o.id = t.tool_id JOIN server s ON s.id = o.server_id
    JOIN auth_context c ON c.id = t.context_id
    LEFT JOIN LATERAL (
        SELECT q.id, q.definition_digest <> decode(o.digest, 'hex') AS outdated,
               q.call_digest IS DISTINCT FROM th_call_digest(t.id, q.params, q."group", q.quorum)
                   OR t.edited::text IS DISTINCT FROM (q.params -> 'edited')::text AS changed,
               NOT th_still_approved(q) AS left_alone,
               q.response::json ->> 'verdict' = 'reject' AS rejected
        FROM question q WHERE q.task_id = t.id AND q.kind = 'approval' AND q.state = 'answered'
        -- Not `q.id`: since claims avoid sorts (claim_tasks), the planner would read all questions there ever were
        -- in the order of the index on `id`.
        ORDER BY q.id + 0 DESC LIMIT 1) AS a ON true
    CROSS JOIN LATERAL (
        SELECT th_why_not(s, o, c) AS barred,
               -- A call without an approval goes to the server, which knows best which tools it has.
               a.id IS NOT NULL AND o.gone_at IS NOT NULL AS gone,
               CASE WHEN a.id IS NULL THEN t.edited IS NOT NULL OR th_unconfirmed(s, o)
                    ELSE a.outdated OR a.changed OR a.left_alone END AS outdated) AS may
    CROSS JOIN LATERAL (
        SELECT CASE WHEN a.rejected THEN 'rejected'
                    WHEN may.barred IS NOT NULL THEN may.barred
                    WHEN may.gone THEN 'tool_not_offered'
                    WHEN a.id IS NULL THEN 'tool_changed'
                    WHEN a.outdated THEN 'approved_tool_changed'
                    WHEN a.changed THEN 'approved_call_changed'
                    ELSE 'approver_left' END AS reason) AS u
    WHERE may.barred IS NOT NULL OR may.gone OR may.outdated
$$;

-- Of the tasks p_ids, which a worker is about to take, holds back those that must not run as they are (th_unfit), and
-- returns their ids. Where the tool has changed, an approval is asked for; the other tasks are faulted, with the
-- reason. The caller holds the locks of the tasks.
CREATE OR REPLACE FUNCTION th_hold_back(p_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    unfit record;
    before record;
    why text;
    held_back bigint[] := '{}';
BEGIN
    FOR unfit IN SELECT u.id, u.tenant_id, u.tool_id, u.lease_epoch, u.approval, u.reason, u.why FROM th_unfit(p_ids) u
    LOOP
        held_back := held_back || unfit.id;
        why := unfit.why;
        IF unfit.reason = 'rejected' THEN
            PERFORM th_end_rejected(unfit.id, unfit.approval);
        ELSIF unfit.reason IN ('tool_changed', 'approved_tool_changed', 'approved_call_changed', 'approver_left') THEN
            SELECT th_approval_key(unfit.id) AS key,
                   coalesce((
                       SELECT json_object_agg(p.key, p.value) FROM (
                           SELECT e.key, e.value FROM json_each(q.params) e WHERE e.key <> 'asked_again'
                           UNION ALL SELECT 'asked_again', to_json(unfit.reason)) AS p
                       WHERE q.id IS NOT NULL
                   ), json_build_object('tool', o.exposed_name, 'server', s.name, 'changed', true)) AS params,
                   coalesce(q."group", '') AS "group", coalesce(q.quorum, 1) AS quorum
            INTO before
            FROM tool o JOIN server s ON s.id = o.server_id LEFT JOIN question q ON q.id = unfit.approval
            WHERE o.id = unfit.tool_id;
            PERFORM th_open_questions(unfit.id, unfit.tenant_id, json_build_array(json_build_object(
                'key', before.key, 'kind', 'approval', 'params', before.params, 'audience', 'operator',
                'group', before."group", 'quorum', before.quorum)), false);
            UPDATE task SET state = 'input_required',
                   message = th_words('waiting_again', th_waiting_for_approval(before."group", 0, before.quorum), why)
            WHERE id = unfit.id;
        ELSE
            why := left(th_words(CASE WHEN unfit.lease_epoch = 0 THEN 'not_run' ELSE 'not_continued' END, why), 1024);
            UPDATE task SET state = 'faulted', message = why, ended_at = clock_timestamp(), upstream_state = NULL,
                   error = th_error(why, CASE WHEN unfit.reason = 'tool_rejected' THEN 'tool_not_offered'
                                              ELSE unfit.reason END)
            WHERE id = unfit.id;
        END IF;
    END LOOP;
    RETURN held_back;
END $$;

-- Whether the rules have to decide a call again before it runs. They have to if, since they decided it last
-- (`decided`), something has changed: the rules, the definition of the tool, or what the rules see of the person who
-- signed in the client; or if the bypass that let the call pass is over. `seen` and `present` are the digests of the
-- definition then and now. Where there are no rules `decided` is null, and null AND a subquery would run the subquery:
-- hence `coalesce`. In PL/pgSQL, which keeps its plans: each claim would plan a function in SQL anew.
CREATE OR REPLACE FUNCTION th_to_decide(tenant bigint, client bigint, decided jsonb, seen bytea, present text)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    latest int := coalesce((SELECT max(v.number) FROM rule_version v WHERE v.tenant_id = tenant), 0);
BEGIN
    RETURN coalesce((decided ->> 'version')::int, 0) <> latest OR latest > 0 AND seen <> decode(present, 'hex')
        OR coalesce(decided ? 'person', false) AND decided -> 'person' IS DISTINCT FROM (
            SELECT th_signed_in(c) FROM auth_context c WHERE c.id = client)
        OR coalesce(decided ? 'bypass', false) AND NOT EXISTS (
            SELECT FROM bypass b WHERE b.id = (decided #>> '{bypass,id}')::bigint
            AND b.ended_at IS NULL AND b.ends_at > clock_timestamp());
END $$;

-- Whether the context and the server of the tool are a pair of p_contexts and p_servers.
CREATE OR REPLACE FUNCTION th_away(p_context bigint, p_tool bigint, p_contexts bigint[], p_servers bigint[])
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM tool o JOIN unnest(p_contexts, p_servers) AS a(context_id, server_id)
                   ON a.context_id = p_context AND a.server_id = o.server_id WHERE o.id = p_tool)
$$;

-- Leases at most p_limit runnable tasks to this worker: (1) look at the queue in its order; (2) hold back what must not
-- run (th_hold_back) and lease the rest; (3) if the first look may have missed tasks that could run, look once more, by
-- contexts and tools, and repeat (2); (4) record an attempt for each task, and return what the worker needs to run it.
-- docs/dev/state-machine.md has a table of the reasons why a task waits or does not run.
-- A context gets tasks while it runs fewer than p_per_context in all and fewer than p_share on this worker; its further
-- tasks wait. p_scarce are the servers that take fewer than p_limit more calls from this worker, and p_rooms how many
-- more each of them takes. Tasks for a server without room stay queued, and do not hold up others. The same is true of
-- tasks for a disabled server, which cause a second look only when a first look meets one.
-- Tasks for a removed server are faulted (th_hold_back).
-- The first look takes the queue as it stands, oldest first, as many tasks as every context has room for: whatever it
-- finds fits, and no task is locked in vain. The first look is enough if no context is full, no server is scarce and no
-- further tasks are queued. Otherwise the backlog of one context or server may fill the front of the queue.
-- The second look goes from context to context, and within each from tool to tool. It never reads an entry of a full
-- context, nor more of a server's entries than the server has room for: its cost grows with the number of waiting
-- contexts and tools, not of tasks. It visits at most 200 pairs of context and tool, from a start that changes with
-- every claim. A server's places go to the oldest task of each context, by lot if there are too many, then to the next
-- task of each.
-- Where a client has a session at a server in another living worker (upstream_session), its tasks for that server are
-- left to that worker: the pairs of client and server are in away_contexts and away_servers.
-- `to_decide`: the rules have to decide the task again (th_to_decide, decide_again).
-- `r_more`: more tasks could run once a task ends. `r_skipped`: another transaction held the lock of a task that waits
-- for nothing else, so the worker should look again soon. If nothing was taken, one row has both and otherwise nulls.
-- `r_since` is where the next claim may start (p_since): no queued task is older. Without it every claim would walk
-- over the dead entries that a drained backlog leaves at the start of the index until the next vacuum. From time to
-- time a claim must start from the beginning (null), to find tasks that were locked or committed late.
CREATE OR REPLACE FUNCTION claim_tasks(p_worker text, p_limit int, p_lease_seconds float8, p_per_context int,
                                       p_share int, p_scarce bigint[], p_rooms int[], p_since timestamptz,
                                       p_who text)
RETURNS TABLE (id bigint, public_id text, epoch int, tenant_id bigint, server_id bigint, server_name text,
               tool_id bigint, upstream_tool text, arguments text, answers text, upstream_state text,
               client_capabilities text, trace text, question_audience text, run_seconds int, given text,
               context_id bigint, revision text, to_decide boolean, r_more boolean, r_since timestamptz,
               r_skipped boolean, r_held_back bigint[])
-- The plan may be made, and cached, while the table is empty or nothing in it is queued. So there are no sequential
-- scans, and rows that are wanted in the order of an index are read from that index and not sorted. (Such a plan, then
-- 19,000 calls queued among 100,000 tasks: 8 ms a claim; with sequential scans 48 ms, with sorts 3.5 s. Hash and merge
-- joins make no difference.) There are no bitmap scans, because only a plain index scan marks the entries of ended
-- leases as dead. Before Postgres 18 each sort that is needed all the same makes the plan look costly enough for
-- just-in-time compilation, which takes a second for each claim: our sessions have `jit` off (`config.env`).
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET enable_incremental_sort = off AS $$
DECLARE
    -- Constant during this claim, so that it can bound an index scan. A call of the volatile clock cannot.
    moment timestamptz := clock_timestamp();
    start timestamptz := coalesce(p_since - interval '1 second', '-infinity');
    chosen bigint[] := '{}';
    batch bigint[];
    seen bigint;
    look int;
    again boolean := cardinality(p_scarce) > 0;
    paused bigint[] := ARRAY(SELECT s.id FROM server s WHERE NOT s.enabled AND s.removed_at IS NULL);
    paused_calls bigint[] := '{}';
    fitting int;
    latest timestamptz;
    full_contexts bigint[];
    more boolean := false;
    skipped boolean := false;
    held_back bigint[] := '{}';
    away_contexts bigint[];
    away_servers bigint[];
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT coalesce(array_agg(u.context_id), '{}'), coalesce(array_agg(u.server_id), '{}')
    INTO away_contexts, away_servers
    FROM upstream_session u JOIN worker w ON w.name = u.worker AND th_alive(w)
    WHERE u.ended_at IS NULL AND u.worker <> p_worker;

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
                  AND NOT (t.context_id = ANY (away_contexts)
                           AND th_away(t.context_id, t.tool_id, away_contexts, away_servers))
                ORDER BY t.runnable_at, t.id LIMIT (SELECT greatest(f.look, 0) FROM full_up f)
                FOR NO KEY UPDATE OF t SKIP LOCKED
            )
            SELECT coalesce(array_agg(f.id), '{}'), count(*), max(f.runnable_at),
                   (SELECT u.contexts FROM full_up u), (SELECT u.look FROM full_up u)
            INTO batch, seen, latest, full_contexts, look FROM free f;
        ELSE
            -- The second look. `waiting` steps through the contexts with queued tasks, and in each through the tools:
            -- it reads one index entry for each pair, and passes over full contexts. It starts at several places at
            -- once, most of them random, so that contexts that one claim does not reach are reached by another.
            -- Comparisons that could be `=` are ranges: then only one index has the wanted order, whatever the
            -- statistics say.
            WITH RECURSIVE rooms AS MATERIALIZED (
                SELECT * FROM th_rooms(p_worker, p_per_context, p_share)
            ), edges AS (
                SELECT r.context_id AS stop, 0::bigint AS stop_tool, r.context_id + 1 AS resume, 0::bigint AS resume_tool
                FROM rooms r WHERE r.room <= 0
                UNION ALL SELECT 0, 0, 0, 0
                UNION ALL
                SELECT n.context_id, m.tool_id, n.context_id, m.tool_id FROM (
                    SELECT floor(random() * (l.context_id + 1))::bigint AS context_id,
                           floor(random() * (l.tool_id + 1))::bigint AS tool_id
                    FROM (SELECT (SELECT max(c.id) FROM auth_context c) AS context_id,
                                 (SELECT max(o.id) FROM tool o) AS tool_id) l, generate_series(1, 4)) m
                CROSS JOIN LATERAL (
                    SELECT t.context_id FROM task t WHERE t.state = 'queued' AND t.context_id >= m.context_id
                    ORDER BY t.context_id, t.tool_id, t.runnable_at, t.id LIMIT 1) n
                WHERE NOT EXISTS (SELECT 1 FROM rooms r WHERE r.context_id = n.context_id AND r.room <= 0)
            ), gaps AS (
                SELECT e.resume AS low, e.resume_tool AS low_tool, lead(e.stop, 1, 9223372036854775807) OVER one AS high,
                       lead(e.stop_tool, 1, 0::bigint) OVER one AS high_tool
                FROM edges e WINDOW one AS (ORDER BY e.resume, e.resume_tool, e.stop, e.stop_tool)
            ), waiting AS (
                SELECT g.high, g.high_tool, n.context_id, n.tool_id FROM gaps g CROSS JOIN LATERAL (
                    SELECT t.context_id, t.tool_id FROM task t
                    WHERE t.state = 'queued' AND (t.context_id, t.tool_id) >= (g.low, g.low_tool)
                      AND (t.context_id, t.tool_id) < (g.high, g.high_tool)
                    ORDER BY t.context_id, t.tool_id, t.runnable_at, t.id LIMIT 1) n
                UNION ALL
                SELECT w.high, w.high_tool, n.context_id, n.tool_id FROM waiting w CROSS JOIN LATERAL (
                    SELECT t.context_id, t.tool_id FROM task t
                    WHERE t.state = 'queued' AND (t.context_id, t.tool_id) > (w.context_id, w.tool_id)
                      AND (t.context_id, t.tool_id) < (w.high, w.high_tool)
                    ORDER BY t.context_id, t.tool_id, t.runnable_at, t.id LIMIT 1) n
            ), turns AS MATERIALIZED (
                SELECT w.context_id, w.tool_id, o.server_id,
                       coalesce(r.room, least(p_per_context, p_share)) AS room, s.room AS server_room
                FROM (SELECT * FROM waiting LIMIT 200) w JOIN tool o ON o.id = w.tool_id
                LEFT JOIN rooms r ON r.context_id = w.context_id
                LEFT JOIN unnest(p_scarce, p_rooms) AS s(server_id, room) ON s.server_id = o.server_id
                WHERE o.server_id <> ALL (paused)
                  AND NOT EXISTS (SELECT FROM unnest(away_contexts, away_servers) AS a(context_id, server_id)
                                  WHERE a.context_id = w.context_id AND a.server_id = o.server_id)
            ), found AS MATERIALIZED (
                -- One task more than fits, to know whether tasks have to wait.
                SELECT o.id, o.runnable_at, c.context_id, c.server_id, c.room, c.server_room, random() AS lot,
                       row_number() OVER (PARTITION BY c.context_id, c.server_id ORDER BY o.runnable_at, o.id) AS n
                FROM turns c CROSS JOIN LATERAL (
                    SELECT t.id, t.runnable_at FROM task t
                    WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL AND t.runnable_at <= moment
                      AND t.context_id BETWEEN c.context_id AND c.context_id
                      AND t.tool_id BETWEEN c.tool_id AND c.tool_id
                    ORDER BY t.context_id, t.tool_id, t.runnable_at, t.id
                    LIMIT greatest(least(c.room, c.server_room, p_limit - cardinality(chosen)), 0) + 1) o
            ), at_servers AS (
                -- By lot, since it is not known which context had the last turn: in a fixed order the first context
                -- would get every place until it has nothing left. A server without a limit takes all of them.
                SELECT f.*, row_number() OVER (PARTITION BY f.server_id ORDER BY f.n, f.lot) AS place
                FROM found f
            ), fit AS MATERIALIZED (
                SELECT i.id, i.runnable_at, i.turn FROM (
                    SELECT a.*, row_number() OVER (PARTITION BY a.context_id ORDER BY a.n, a.runnable_at, a.id) AS turn
                    FROM at_servers a WHERE a.server_room IS NULL OR a.place <= a.server_room) i
                WHERE i.turn <= i.room ORDER BY i.turn, i.runnable_at, i.id LIMIT p_limit - cardinality(chosen)
            ), locked AS MATERIALIZED (
                -- `coalesce` keeps the planner from the index of queued tasks, so that the rows are found by id.
                SELECT t.id FROM task t
                WHERE t.id = ANY (ARRAY(SELECT f.id FROM fit f))
                  AND coalesce(t.state, '') = 'queued' AND t.cancel_requested_at IS NULL AND t.runnable_at <= moment
                FOR NO KEY UPDATE OF t SKIP LOCKED
            )
            SELECT coalesce((SELECT array_agg(l.id) FROM locked l), '{}'), (SELECT count(*) FROM fit),
                   (SELECT count(*) FROM found) > (SELECT count(*) FROM fit),
                   (SELECT array_agg(r.context_id) FROM rooms r WHERE r.room <= 0)
            INTO batch, fitting, more, full_contexts;
        END IF;
        IF NOT again AND cardinality(paused) > 0 THEN
            -- The tasks are read first, by their ids alone, as in th_hold_back.
            WITH taken AS MATERIALIZED (SELECT t.id, t.tool_id FROM task t WHERE t.id = ANY (batch))
            SELECT coalesce(array_agg(w.id), '{}') INTO paused_calls
            FROM taken w JOIN tool o ON o.id = w.tool_id WHERE o.server_id = ANY (paused);
            batch := ARRAY(SELECT b.id FROM unnest(batch) AS b(id) WHERE b.id <> ALL (paused_calls));
        END IF;
        IF cardinality(batch) > 0 THEN
            -- Calls may have waited for days, and some may not run any more (th_hold_back).
            held_back := held_back || th_hold_back(batch);
            UPDATE task SET state = 'working', lease_epoch = lease_epoch + 1, worker = p_worker, message = '',
                   lease_until = clock_timestamp() + make_interval(secs => p_lease_seconds)
            WHERE task.id = ANY (batch) AND task.id <> ALL (held_back);
            chosen := chosen || ARRAY(SELECT b.id FROM unnest(batch) AS b(id) WHERE b.id <> ALL (held_back));
        END IF;
        IF again THEN
            skipped := cardinality(batch) < fitting AND cardinality(chosen) < p_limit;
            latest := NULL;
            EXIT;
        END IF;
        -- A task that a first look without full contexts leaves is locked, or exceeds the room of its context.
        skipped := cardinality(chosen) < p_limit AND EXISTS (
            SELECT 1 FROM task t WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL
            AND t.runnable_at BETWEEN start AND moment
            AND NOT (t.context_id = ANY (away_contexts)
                     AND th_away(t.context_id, t.tool_id, away_contexts, away_servers)));
        EXIT WHEN full_contexts IS NULL AND paused_calls = '{}' AND (seen < look OR look = p_limit OR NOT skipped);
        again := true;
    END LOOP;
    more := more OR cardinality(chosen) >= p_limit OR full_contexts IS NOT NULL AND EXISTS (
        SELECT 1 FROM unnest(full_contexts) AS f(id) CROSS JOIN LATERAL (
            SELECT t.id FROM task t
            WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL AND t.runnable_at <= moment
              AND t.context_id BETWEEN f.id AND f.id
            ORDER BY t.context_id, t.tool_id, t.runnable_at, t.id LIMIT 1) o);
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
        -- The tasks are read first, by their ids alone, as in th_hold_back.
        WITH taken AS MATERIALIZED (
            SELECT w.id, w.public_id, w.lease_epoch, w.tenant_id, w.tool_id, w.context_id, w.arguments, w.edited, w.answers,
                   w.upstream_state, w.client_capabilities, w.trace, w.run_seconds, w.revision, w.tool_digest,
                   w.decided
            FROM task w WHERE w.id = ANY (chosen)
        )
        SELECT t.id, t.public_id::text, t.lease_epoch, t.tenant_id, s.id, s.name::text, o.id, o.name::text,
               coalesce(t.edited -> 'arguments', t.arguments)::text,
               -- the latest answer to each question of the tool
               coalesce((
                   SELECT jsonb_object_agg(q.upstream_key, q.response::jsonb) FROM question q
                   WHERE q.task_id = t.id AND q.state = 'answered' AND q.upstream_key <> ''
                     AND NOT q.live AND q.id IN (
                         SELECT max(l.id) FROM question l WHERE l.task_id = t.id AND l.state = 'answered'
                         GROUP BY l.upstream_key)), '{}')::text,
               t.upstream_state::text, t.client_capabilities::text, t.trace::text, o.question_audience::text,
               t.run_seconds, t.answers::text, t.context_id, t.revision::text,
               -- Where there are no rules, the answer is known without a call of the function for each task.
               (t.decided IS NOT NULL OR EXISTS (SELECT FROM rule_version v WHERE v.tenant_id = t.tenant_id))
               AND th_to_decide(t.tenant_id, t.context_id, t.decided, t.tool_digest, o.digest), more,
               CASE WHEN full_contexts IS NULL AND NOT skipped THEN latest END, skipped, held_back
        FROM taken t JOIN tool o ON o.id = t.tool_id JOIN server s ON s.id = o.server_id ORDER BY t.id;
END $$;

-- The key of a further approval of the task.
CREATE OR REPLACE FUNCTION th_approval_key(p_id bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT 'approval' || CASE WHEN count(*) = 0 THEN '' ELSE '-' || count(*) + 1 END
    FROM question WHERE task_id = p_id AND kind = 'approval'
$$;

-- Stores what the rules say of a claimed task for which they have to decide again (th_to_decide). With `p_approval`, a
-- question as an array of one, people are asked; with `p_refusal`, the text that its caller gets, the task ends; with
-- neither it may run. Returns whether it may run: if not, the worker does not hold it any more. A task that is to be
-- cancelled ends instead.
CREATE OR REPLACE FUNCTION decide_again(p_id bigint, p_epoch int, p_decided jsonb, p_approval json, p_refusal text,
                                        p_who text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held record;
    why text;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT t.tenant_id, t.context_id, t.tool_name, t.decided, t.cancel_requested_at INTO held FROM task t
    WHERE t.id = p_id AND t.lease_epoch = p_epoch AND th_held(t.lease_until) AND t.ended_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE task SET decided = p_decided WHERE id = p_id;
    INSERT INTO event (tenant_id, task_id, action, actor, door, context_id, target, before, after)
    VALUES (held.tenant_id, p_id, 'task.decided', coalesce(th_who('name'), session_user),
            coalesce(th_who('door'), 'sql'), held.context_id, held.tool_name, th_decided(held.decided),
            jsonb_build_object('decided', p_decided - '{scopes,person}'::text[]));
    IF p_approval IS NULL AND p_refusal IS NULL THEN
        RETURN true;
    END IF;
    IF held.cancel_requested_at IS NOT NULL THEN
        -- Nobody is asked, and it must not run either: whoever cancels a call has not approved it.
        UPDATE task SET state = 'cancelled', message = th_cancelled_idle(p_id), ended_at = clock_timestamp(),
               lease_until = NULL, upstream_state = NULL WHERE id = p_id;
        PERFORM th_close_attempt(p_id, p_epoch, 'cancelled', '');
        RETURN false;
    END IF;
    IF p_refusal IS NOT NULL THEN
        p_refusal := left(th_words(CASE WHEN p_epoch = 1 THEN 'not_run' ELSE 'not_continued' END, p_refusal), 1024);
        UPDATE task SET state = 'faulted', message = p_refusal, error = th_error(p_refusal, 'denied_by_rule'),
               ended_as = 'denied', ended_at = clock_timestamp(), lease_until = NULL, upstream_state = NULL WHERE id = p_id;
        PERFORM th_close_attempt(p_id, p_epoch, 'faulted', p_refusal);
        RETURN false;
    END IF;
    why := th_words(CASE WHEN held.decided ? 'bypass' THEN 'bypass_over' ELSE 'rules_changed' END);
    PERFORM th_open_questions(p_id, held.tenant_id, json_build_array((
        SELECT json_object_agg(e.key, CASE WHEN e.key = 'key' THEN to_json(th_approval_key(p_id)) ELSE e.value END)
        FROM json_each(p_approval -> 0) e)), false);
    UPDATE task SET state = 'input_required', lease_until = NULL, worker = '',
           message = th_words('waiting_again', th_waiting_for_approval(
               coalesce(p_approval #>> '{0,group}', ''), 0, coalesce((p_approval #>> '{0,quorum}')::int, 1)), why)
    WHERE id = p_id;
    PERFORM th_close_attempt(p_id, p_epoch, 'released', why);
    RETURN false;
END $$;

-- Renews the leases that this worker holds, and returns for each whether its cancellation was requested. A task that is
-- missing from the result is not this worker's any more.
CREATE OR REPLACE FUNCTION renew_leases(p_worker text, p_ids bigint[], p_epochs int[], p_lease_seconds float8)
RETURNS TABLE (id bigint, cancel_requested boolean) LANGUAGE sql SET enable_seqscan = off AS $$
    UPDATE task t SET lease_until = clock_timestamp() + make_interval(secs => p_lease_seconds)
    FROM unnest(p_ids, p_epochs) AS held(id, epoch)
    WHERE t.id = held.id AND t.lease_epoch = held.epoch AND t.worker = p_worker AND th_held(t.lease_until)
    RETURNING t.id, t.cancel_requested_at IS NOT NULL
$$;
