-- The feed of committed events. The format of this file: taskhub/store/statements.py.

-- The events up to which the feed is complete: no event can appear any more at a position below the snapshot's xmin. A
-- transaction that is still open has a position above it, even if its events have lower ids than others.
/* fragment: committed
e.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint + event_shift()
*/

-- read: feed_waits(consumer text) -> bool | None
-- Whether events follow the consumer's place; no row if it has no place. Takes no lock, so that an idle consumer writes
-- nothing.
SELECT exists(SELECT FROM event AS e WHERE (e.xid, e.id) > (c.xid, c.event_id) AND {committed})
FROM feed_consumer AS c WHERE c.name = :consumer;

-- write: begin_feed(consumer text) -> None
-- The place is behind the newest event that can be read, and behind all sealed events. After a move into another
-- cluster, until the move is recorded, sealed events have positions that the new cluster has not reached.
INSERT INTO feed_consumer (name, xid, event_id)
SELECT :consumer, p.xid, p.id
FROM (
    SELECT 0::bigint AS xid, 0::bigint AS id
    UNION ALL
    (SELECT e.xid, e.id FROM event AS e WHERE {committed} ORDER BY e.xid DESC, e.id DESC LIMIT 1)
    UNION ALL
    (SELECT s.to_xid - 1, 9223372036854775807 FROM seal AS s ORDER BY s.to_xid DESC LIMIT 1)
) AS p
ORDER BY p.xid DESC, p.id DESC LIMIT 1
ON CONFLICT (name) DO NOTHING;

-- write: take_feed(consumer text, most int) -> _Reach | None
-- Locks the consumer's place until the transaction ends; no row if another process has locked it.
WITH held AS (
    SELECT c.xid, c.event_id FROM feed_consumer AS c WHERE c.name = :consumer FOR UPDATE SKIP LOCKED
)
SELECT h.xid AS after_xid, h.event_id AS after_id, r.xid AS to_xid, r.id AS to_id,
       coalesce(r.looked_at, 0)::int AS looked_at
FROM held AS h
LEFT JOIN LATERAL (
    SELECT n.xid, n.id, count(*) OVER () AS looked_at
    FROM (
        SELECT e.xid, e.id FROM event AS e
        WHERE (e.xid, e.id) > (h.xid, h.event_id) AND {committed}
        ORDER BY e.xid, e.id LIMIT :most
    ) AS n
    ORDER BY n.xid DESC, n.id DESC LIMIT 1
) AS r ON true;

-- read: feed_events(after_xid bigint, after_id bigint, to_xid bigint, to_id bigint, actions text[]) -> list[FeedEvent]
SELECT e.id, e.tenant_id, e.task_id, e.action, e.actor, e.user_id, e.reason, e.after, e.at FROM event AS e
WHERE (e.xid, e.id) > (:after_xid, :after_id) AND (e.xid, e.id) <= (:to_xid, :to_id) AND e.action = any(:actions)
ORDER BY e.xid, e.id;

-- write: move_in_feed(consumer text, xid bigint, event bigint) -> None
UPDATE feed_consumer SET xid = :xid, event_id = :event, moved_at = clock_timestamp() WHERE name = :consumer;

-- read fresh: feed_lag() -> float
-- The age in seconds of the oldest event that a consumer has not looked at; 0 without consumers. Events of transactions
-- that are still open count as well.
SELECT coalesce(max(extract(EPOCH FROM statement_timestamp() - next.at)), 0)::float8
FROM feed_consumer AS c
CROSS JOIN LATERAL (
    SELECT e.at FROM event AS e WHERE (e.xid, e.id) > (c.xid, c.event_id) ORDER BY e.xid, e.id LIMIT 1
) AS next;
