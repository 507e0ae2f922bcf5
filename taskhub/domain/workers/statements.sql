-- Workers, what waits for them, and the numbers of the overview. The form: taskhub/store/statements.py.

-- write: heartbeat(name text, host text, pid int, version text, slots int, busy int) -> None
INSERT INTO worker (name, host, pid, version, slots, busy, started_at, heartbeat_at)
VALUES (:name, :host, :pid, :version, :slots, :busy, clock_timestamp(), clock_timestamp())
ON CONFLICT (name) DO UPDATE SET
    heartbeat_at = clock_timestamp(), busy = excluded.busy, slots = excluded.slots, stopped_at = NULL;

-- write: heartbeat_of(name text) -> datetime | None
UPDATE worker SET busy = busy WHERE name = :name AND stopped_at IS NULL RETURNING heartbeat_at;

-- write: goodbye(name text, channel text, hint text) -> None
UPDATE worker SET stopped_at = clock_timestamp(), busy = 0 WHERE name = :name RETURNING pg_notify(:channel, :hint);

-- read fresh: workers(silent_seconds float8) -> list[WorkerRow]
SELECT w.id, w.name, w.host, w.pid, w.version, w.slots, w.busy, w.started_at, w.heartbeat_at, w.stopped_at,
       CASE WHEN w.stopped_at IS NOT NULL THEN 'stopped'
            WHEN w.heartbeat_at < clock_timestamp() - make_interval(secs => :silent_seconds) THEN 'silent'
            ELSE 'alive' END AS state
FROM worker AS w
WHERE greatest(w.heartbeat_at, w.stopped_at) > clock_timestamp() - interval '1 day'
ORDER BY state, w.started_at DESC, w.id LIMIT 200;

-- read fresh: held_tasks(tenant bigint, most int) -> list[tuple[str, bool, RunningTask]]
SELECT t.worker, t.tenant_id = :tenant AS own, t.public_id, t.tool_name, t.state,
       coalesce(a.started_at, t.updated_at) AS since, t.lease_until < clock_timestamp() AS overdue
FROM task AS t LEFT JOIN attempt AS a ON a.task_id = t.id AND a.number = t.lease_epoch
WHERE t.worker <> '' AND t.ended_at IS NULL AND t.lease_until IS NOT NULL
ORDER BY t.lease_until LIMIT :most;

-- read fresh: queue(tenant bigint, counted int) -> Queue
-- Of one tenant, or of all. `oldest` has waited for a worker longest: it could run, and would if one had a slot for it.
-- Calls at a disabled server are paused, and counted apart. From each client and tool with something queued to the
-- next, one entry of the index each, so that the paused ones are not walked over.
WITH RECURSIVE waiting AS (
    (
        SELECT t.context_id, t.tool_id FROM task AS t
        WHERE t.state = 'queued' ORDER BY t.context_id, t.tool_id, t.runnable_at, t.id LIMIT 1
    )
    UNION ALL
    SELECT n.context_id, n.tool_id
    FROM waiting AS w CROSS JOIN LATERAL (
        SELECT t.context_id, t.tool_id FROM task AS t
        WHERE t.state = 'queued' AND (t.context_id, t.tool_id) > (w.context_id, w.tool_id)
        ORDER BY t.context_id, t.tool_id, t.runnable_at, t.id LIMIT 1
    ) AS n
), pair AS MATERIALIZED (
    SELECT w.context_id, w.tool_id, s.enabled
    FROM waiting AS w JOIN tool AS o ON o.id = w.tool_id JOIN server AS s ON s.id = o.server_id
    WHERE :tenant IS NULL OR s.tenant_id = :tenant
), oldest AS MATERIALIZED (
    SELECT f.public_id, f.runnable_at
    FROM pair AS p CROSS JOIN LATERAL (
        SELECT t.id, t.public_id, t.runnable_at FROM task AS t
        WHERE t.state = 'queued' AND t.cancel_requested_at IS NULL
          AND t.context_id BETWEEN p.context_id AND p.context_id AND t.tool_id BETWEEN p.tool_id AND p.tool_id
        ORDER BY t.context_id, t.tool_id, t.runnable_at, t.id LIMIT 1
    ) AS f
    WHERE p.enabled AND f.runnable_at <= statement_timestamp()
    ORDER BY f.runnable_at, f.id LIMIT 1
)
SELECT (SELECT count(*) FROM (
            SELECT FROM task AS t
            WHERE (:tenant IS NULL OR t.tenant_id = :tenant) AND t.state = 'queued' ORDER BY t.id LIMIT :counted
        ) AS found) AS depth,
       (SELECT count(*) FROM (
            SELECT FROM pair AS p JOIN task AS t ON t.context_id = p.context_id AND t.tool_id = p.tool_id
            WHERE NOT p.enabled AND t.state = 'queued' LIMIT :counted
        ) AS found) AS paused,
       (SELECT runnable_at FROM oldest) AS oldest_at,
       (SELECT public_id FROM oldest) AS oldest,
       (SELECT count(*) FROM task AS t
        WHERE (:tenant IS NULL OR t.tenant_id = :tenant) AND t.worker <> '' AND t.ended_at IS NULL
          AND t.lease_until < statement_timestamp()) AS lost;


-- The overview

-- read fresh: numbers(tenant bigint, silent_seconds float8) -> Numbers
-- Every count is over what lives, so that it never grows with history.
WITH waiting AS (
    SELECT t.id, bool_or(q.audience <> 'client') AS people
    FROM task AS t JOIN question AS q ON q.task_id = t.id AND q.state = 'open'
    WHERE t.tenant_id = :tenant AND t.state = 'input_required' GROUP BY t.id
)
SELECT (SELECT count(*) FROM task AS t WHERE t.tenant_id = :tenant AND t.state = 'working') AS working,
       (SELECT count(*) FROM waiting WHERE people) AS waiting_people,
       (SELECT count(*) FROM waiting WHERE NOT people) AS waiting_client,
       (SELECT count(*) FROM worker AS w
        WHERE w.stopped_at IS NULL
          AND w.heartbeat_at > now() - make_interval(secs => :silent_seconds)) AS live_workers,
       (SELECT count(*) FROM server AS s WHERE s.tenant_id = :tenant AND s.enabled) AS servers,
       (SELECT count(*) FROM tool AS o JOIN server AS s ON s.id = o.server_id
        WHERE s.tenant_id = :tenant AND o.gone_at IS NULL) AS tools,
       (SELECT count(*) FROM access_token AS a JOIN auth_context AS c ON c.id = a.context_id
        WHERE c.tenant_id = :tenant AND a.revoked_at IS NULL
          AND (a.expires_at IS NULL OR a.expires_at > now())) AS tokens,
       (SELECT t.id FROM task AS t WHERE t.tenant_id = :tenant ORDER BY t.id DESC LIMIT 1) IS NOT NULL AS ever;

-- read fresh: ended(tenant bigint, since timestamptz, until timestamptz) -> list[Ended]
WITH recent AS (
    SELECT t.tool_name, t.state, t.state = 'faulted' OR t.is_error AS bad, t.ended_at, t.message, t.public_id
    FROM task AS t
    WHERE t.tenant_id = :tenant AND t.ended_at >= :since AND t.ended_at < :until
)
SELECT date_trunc('hour', r.ended_at, 'UTC') AS start, r.tool_name,
       count(*) FILTER (WHERE r.state = 'finished' AND NOT r.bad) AS finished, count(*) FILTER (WHERE r.bad) AS failed,
       count(*) FILTER (WHERE r.state = 'cancelled') AS cancelled,
       max(r.ended_at) FILTER (WHERE r.bad) AS last_at,
       (array_agg(r.message ORDER BY r.ended_at DESC) FILTER (WHERE r.bad))[1] AS last_message,
       (array_agg(r.public_id ORDER BY r.ended_at DESC) FILTER (WHERE r.bad))[1] AS last_public_id
FROM recent AS r GROUP BY 1, 2;


-- Health

-- read fresh: failed_chores() -> list[str]
-- procrastinate keeps the last run of each here, and its outcome in the job.
SELECT DISTINCT j.task_name FROM procrastinate_periodic_defers AS d
JOIN procrastinate_jobs AS j ON j.id = d.job_id
WHERE j.status = 'failed' ORDER BY 1;

-- read fresh: connections() -> tuple[int, int]
-- Those to this database, and how many the whole server takes.
SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity AS a
WHERE a.datname = current_database();

-- read fresh: database_standing() -> _Standing
SELECT current_setting('server_version_num')::int AS number, current_setting('server_version') AS version,
       current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('full_page_writes') AS full_page_writes,
       array(SELECT t.tgname::text FROM pg_trigger AS t
             WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')) AS triggers,
       (SELECT r.rolsuper FROM pg_roles AS r WHERE r.rolname = current_user) AS superuser;


-- How long calls take

-- write: store_timings(servers bigint[], kinds text[], seconds float8[], counts bigint[], buckets int) -> None
-- In one order, so that two workers never wait for each other; of servers that are still there.
INSERT INTO timing AS t (server_id, kind, seconds, counts)
SELECT r.server, r.kind, r.seconds,
       (:counts)[(r.n - 1) * :buckets + 1 : r.n * :buckets]
FROM unnest(:servers, :kinds, :seconds) WITH ORDINALITY AS r (server, kind, seconds, n)
JOIN server AS s ON s.id = r.server ORDER BY r.server, r.kind
ON CONFLICT (server_id, kind) DO UPDATE SET
    seconds = t.seconds + excluded.seconds,
    counts = array(
        SELECT b.kept + b.added FROM unnest(t.counts, excluded.counts) WITH ORDINALITY AS b (kept, added, n)
        ORDER BY b.n
    );

-- read fresh: server_timings() -> list[ServerTiming]
SELECT each.server, each.kind, array_agg(each.count ORDER BY each.n) AS counts, sum(each.seconds) AS seconds
FROM (
    SELECT s.name AS server, t.kind, c.n, sum(c.count)::bigint AS count,
           sum(t.seconds) FILTER (WHERE c.n = 1) AS seconds
    FROM timing AS t JOIN server AS s ON s.id = t.server_id
    CROSS JOIN LATERAL unnest(t.counts) WITH ORDINALITY AS c (count, n)
    GROUP BY s.name, t.kind, c.n
) AS each
GROUP BY each.server, each.kind ORDER BY each.server, each.kind;
