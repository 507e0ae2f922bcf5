-- Statements of probes and the doctor. Format of this file: taskhub/store/statements.py.

-- read fresh: seal_lag() -> float
-- The age in seconds of the oldest event without a seal. In a new cluster whose transaction ids are still below those
-- of the last seal, no seal can be made: then it is at least the age of the last seal.
WITH last AS (SELECT s.to_xid, s.at FROM seal AS s ORDER BY s.to_xid DESC LIMIT 1)
SELECT coalesce(extract(EPOCH FROM clock_timestamp() - least(
    (
        SELECT e.at FROM event AS e
        WHERE e.xid >= coalesce((SELECT to_xid FROM last), 0) ORDER BY e.xid, e.id LIMIT 1
    ),
    (SELECT at FROM last WHERE to_xid > pg_snapshot_xmax(pg_current_snapshot())::text::bigint + event_shift())
)), 0)::float8;

-- read fresh: failed_chores() -> list[str]
-- procrastinate_periodic_defers has the last run of each periodic task; the job of that run has its outcome.
SELECT DISTINCT j.task_name FROM procrastinate_periodic_defers AS d
JOIN procrastinate_jobs AS j ON j.id = d.job_id
WHERE j.status = 'failed' ORDER BY 1;

-- read fresh: connections() -> tuple[int, int]
-- The number of connections to this database, and the most that the Postgres server takes for all databases.
SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity AS a
WHERE a.datname = current_database();

-- read fresh: database_standing() -> _Standing
SELECT current_setting('server_version_num')::int AS number, current_setting('server_version') AS version,
       current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('full_page_writes') AS full_page_writes,
       array(SELECT t.tgname::text FROM pg_trigger AS t
             WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')) AS triggers,
       (SELECT r.rolsuper FROM pg_roles AS r WHERE r.rolname = current_user) AS superuser;

-- read fresh: little_memory() -> tuple[str, str]
-- Limits the memory of this transaction, so that the rows of `spill` do not fit into it.
SELECT set_config('work_mem', '64kB', true), set_config('temp_tablespaces', '', true);

-- read fresh: spill() -> int
-- After `little_memory` this needs a temporary file beside the tables, which fails on a full disk. Writes no rows and
-- no WAL.
SELECT count(*)::int FROM generate_series(1, 40000);
