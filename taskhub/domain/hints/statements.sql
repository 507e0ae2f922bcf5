-- Statements that send hints. Format of this file: taskhub/store/statements.py.

-- write: notify(channel text, hints text) -> None
SELECT pg_notify(:channel, :hints);

-- write: notify_soon(channel text, hints text) -> None
-- Turns `synchronous_commit` off for this transaction only: its commit does not wait for the disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify(:channel, :hints);

-- write: wait_for_no_disk() -> None
-- Turns `synchronous_commit` off for this connection: its commits do not wait for the disk.
SELECT set_config('synchronous_commit', 'off', false);

-- write: notify_of_tasks(channel text, tasks bigint[]) -> None
SELECT pg_notify(:channel, string_agg(h.hint, ';'))
FROM unnest(:tasks) AS i (id)
CROSS JOIN LATERAL (SELECT th_hint(t) AS hint FROM task AS t WHERE t.id = i.id LIMIT 1) AS h
HAVING count(*) > 0;
