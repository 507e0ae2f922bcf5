-- Statements of workers and the queue. Format of this file: taskhub/store/statements.py.

-- write: heartbeat(name text, host text, pid int, version text, slots int, busy int, in_place boolean) -> None
INSERT INTO worker (name, host, pid, version, slots, busy, in_place, started_at, heartbeat_at)
VALUES (:name, :host, :pid, :version, :slots, :busy, :in_place, clock_timestamp(), clock_timestamp())
ON CONFLICT (name) DO UPDATE SET
    heartbeat_at = clock_timestamp(), busy = excluded.busy, slots = excluded.slots, stopped_at = NULL;

-- write: heartbeat_of(name text) -> datetime | None
UPDATE worker SET busy = busy WHERE name = :name AND stopped_at IS NULL RETURNING heartbeat_at;

-- write: goodbye(name text, channel text, hint text) -> None
UPDATE worker SET stopped_at = clock_timestamp(), busy = 0 WHERE name = :name RETURNING pg_notify(:channel, :hint);

-- read fresh: workers() -> list[WorkerRow]
SELECT w.id, w.name, w.host, w.pid, w.version, w.slots, w.busy, w.started_at, w.heartbeat_at, w.stopped_at,
       CASE WHEN w.stopped_at IS NOT NULL THEN 'stopped'
            WHEN th_heard(w) THEN 'alive' ELSE 'silent' END AS state, w.in_place,
       coalesce(u.processes, 0)::int AS processes, coalesce(u.memory, 0)::bigint AS memory
FROM worker AS w LEFT JOIN (
    SELECT worker, count(*) AS processes, sum(memory) AS memory FROM upstream_session
    WHERE ended_at IS NULL AND pid IS NOT NULL GROUP BY worker
) AS u ON u.worker = w.name
WHERE greatest(w.heartbeat_at, w.stopped_at) > clock_timestamp() - interval '1 day'
ORDER BY state, w.in_place, w.started_at DESC, w.id LIMIT 200;

-- read fresh: held_tasks(tenant bigint, most int) -> list[tuple[str, bool, RunningTask]]
SELECT t.worker, t.tenant_id = :tenant AS own, t.public_id, t.tool_name, t.state,
       coalesce(a.started_at, t.updated_at) AS since, t.lease_until < clock_timestamp() AS overdue
FROM task AS t LEFT JOIN attempt AS a ON a.task_id = t.id AND a.number = t.lease_epoch
WHERE t.worker <> '' AND t.ended_at IS NULL AND t.lease_until IS NOT NULL
ORDER BY t.lease_until LIMIT :most;

-- read fresh: queue(tenant bigint, counted int) -> Queue
-- The queue of a tenant, or of all tenants if `tenant` is null. `oldest` is the runnable task that has waited longest.
-- `paused` counts queued tasks of disabled servers, which are not runnable. `waiting` steps from each pair of client
-- and tool with queued tasks to the next one, reading one index entry for each, so that it does not read all paused
-- tasks.
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
    SELECT w.context_id, w.tool_id, s.enabled OR s.removed_at IS NOT NULL AS enabled
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


-- Sessions of clients at servers

-- write: take_session(server bigint, context bigint, worker text) -> _Taken
SELECT granted, lost FROM take_session(:server, :context, :worker);

-- write: session_opened(server bigint, context bigint, worker text, pid int) -> None
UPDATE upstream_session SET pid = :pid
WHERE server_id = :server AND context_id = :context AND worker = :worker AND ended_at IS NULL;

-- write: session_ended(server bigint, context bigint, worker text, why text) -> None
UPDATE upstream_session SET ended_at = clock_timestamp(), why = :why, pid = NULL, memory = NULL
WHERE server_id = :server AND context_id = :context AND worker = :worker AND ended_at IS NULL;

-- write: session_given_up(server bigint, context bigint, worker text) -> None
DELETE FROM upstream_session
WHERE server_id = :server AND context_id = :context AND worker = :worker AND ended_at IS NULL;

-- write: store_memory(worker text, pids int[], memories bigint[]) -> None
UPDATE upstream_session SET memory = m.memory
FROM unnest(:pids, :memories) AS m (pid, memory)
WHERE worker = :worker AND ended_at IS NULL AND upstream_session.pid = m.pid;

-- write: purge_upstream_sessions(days int, most int) -> rowcount
DELETE FROM upstream_session WHERE id = any(array(
    -- If a worker was lost, nobody has stored the end of its sessions.
    SELECT id FROM upstream_session
    WHERE coalesce(ended_at, opened_at) < statement_timestamp() - make_interval(days => :days)
      AND (ended_at IS NOT NULL OR NOT th_lives(worker))
    ORDER BY id LIMIT :most FOR UPDATE SKIP LOCKED
));

-- read fresh: upstream_sessions(server bigint, most int) -> list[SessionRow]
-- Open sessions first, the longest of them first; then those that ended within a day.
SELECT c.name AS client, s.worker, s.pid, s.memory, s.opened_at,
       coalesce(s.ended_at, CASE WHEN NOT th_lives(s.worker) THEN s.opened_at END) AS ended_at,
       CASE WHEN s.ended_at IS NOT NULL THEN s.why
            WHEN NOT th_lives(s.worker) THEN th_words('session_worker_lost') ELSE '' END AS why
FROM upstream_session AS s JOIN auth_context AS c ON c.id = s.context_id
WHERE s.server_id = :server AND (s.ended_at IS NULL OR s.ended_at > statement_timestamp() - interval '1 day')
ORDER BY s.ended_at DESC NULLS FIRST, s.opened_at LIMIT :most;


-- What commands say

-- write: store_lines(server bigint, worker text, texts text[], most int) -> None
-- Adds lines, and keeps only the newest `most` lines of the server.
WITH old AS (
    DELETE FROM server_line WHERE server_id = :server AND id <= (
        SELECT id FROM server_line WHERE server_id = :server
        ORDER BY id DESC LIMIT 1 OFFSET greatest(:most - cardinality(:texts), 0)
    )
)
INSERT INTO server_line (server_id, worker, text)
SELECT s.id, :worker, said.text FROM server AS s, unnest(:texts) WITH ORDINALITY AS said (text, number)
WHERE s.id = :server AND s.removed_at IS NULL
ORDER BY said.number;

-- write: purge_lines(days int, most int) -> rowcount
DELETE FROM server_line WHERE id = any(array(
    SELECT n.id FROM server_line AS n JOIN server AS s ON s.id = n.server_id
    WHERE n.said_at < statement_timestamp() - make_interval(days => :days) OR s.removed_at IS NOT NULL
    ORDER BY n.id LIMIT :most FOR UPDATE OF n SKIP LOCKED
));

-- read fresh: server_lines(server bigint, most int) -> list[LineRow]
SELECT said_at, worker, text FROM server_line WHERE server_id = :server ORDER BY id DESC LIMIT :most;
