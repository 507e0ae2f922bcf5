-- Statements of the audit log: reads, seals, verification, archives. Format of this file: taskhub/store/statements.py.

/* fragment: event_columns
e.id, e.at, e.action, e.actor, e.door, e.address, e.task_id, t.public_id AS task_public_id, e.target, e.reason,
e.before::text AS before, e.after::text AS after, e.context_id, c.name AS context_name, e.xid
*/

/* fragment: event_joins
LEFT JOIN task AS t ON t.id = e.task_id AND t.tenant_id = e.tenant_id
LEFT JOIN auth_context AS c ON c.id = e.context_id AND c.tenant_id = e.tenant_id
*/

/* fragment: event_reach
e.tenant_id = :tenant AND e.id >= :low AND e.id < :high
*/

-- `category`, `actor`, `address` and `text` are patterns for LIKE.
/* fragment: event_fits
(:action IS NULL OR e.action = :action)
    AND (:category IS NULL OR e.action LIKE :category)
    AND (:task IS NULL OR e.task_id = :task)
    AND (:door IS NULL OR e.door = :door)
    AND (:actor IS NULL OR e.actor ILIKE :actor)
    AND (:address IS NULL OR e.address LIKE :address)
    AND (:since IS NULL OR e.at >= :since)
    AND (:until IS NULL OR e.at <= :until)
    AND (:text IS NULL OR concat_ws(' ', e.target, e.reason, e.before::text, e.after::text) ILIKE :text)
*/


-- Pages

-- read fresh: older_events(tenant bigint, low bigint, high bigint, action text, category text, task bigint, door text,
--     actor text, address text, since timestamptz, until timestamptz, text text, most int) -> list[EventRow]
SELECT {event_columns} FROM event AS e {event_joins}
WHERE {event_reach} AND {event_fits}
ORDER BY e.id DESC LIMIT :most;

-- read fresh: newer_events(tenant bigint, low bigint, high bigint, action text, category text, task bigint, door text,
--     actor text, address text, since timestamptz, until timestamptz, text text, most int) -> list[EventRow]
SELECT {event_columns} FROM event AS e {event_joins}
WHERE {event_reach} AND {event_fits}
ORDER BY e.id ASC LIMIT :most;

-- read fresh: older_events_searched(tenant bigint, low bigint, high bigint, action text, category text, task bigint,
--     door text, actor text, address text, since timestamptz, until timestamptz, text text, looked_at int, most int)
--     -> list[EventRow]
-- The inner LIMIT bounds the work; the outer LIMIT ends it as soon as the page is full.
SELECT {event_columns}
FROM (SELECT * FROM event AS e WHERE {event_reach} ORDER BY e.id DESC LIMIT :looked_at) AS e {event_joins}
WHERE {event_fits}
ORDER BY e.id DESC LIMIT :most;

-- read fresh: newer_events_searched(tenant bigint, low bigint, high bigint, action text, category text, task bigint,
--     door text, actor text, address text, since timestamptz, until timestamptz, text text, looked_at int, most int)
--     -> list[EventRow]
SELECT {event_columns}
FROM (SELECT * FROM event AS e WHERE {event_reach} ORDER BY e.id ASC LIMIT :looked_at) AS e {event_joins}
WHERE {event_fits}
ORDER BY e.id ASC LIMIT :most;

-- read fresh: last_event_looked_at(tenant bigint, low bigint, high bigint, looked_at int)
--     -> tuple[int, datetime] | None
-- The last event that a search over `looked_at` events reaches, with its time; no row if it reaches the end.
SELECT e.id, e.at FROM event AS e WHERE {event_reach} ORDER BY e.id DESC LIMIT 1 OFFSET :looked_at - 1;

-- read fresh: first_event_id_at(tenant bigint, moment timestamptz) -> int
-- Bisects over the ids, since there is no index on time.
WITH RECURSIVE search (lo, hi) AS (
    SELECT min(e.id), max(e.id) + 1 FROM event AS e WHERE e.tenant_id = :tenant
    UNION ALL
    SELECT CASE WHEN probe.at < :moment THEN probe.id + 1 ELSE s.lo END,
           CASE WHEN probe.at < :moment THEN s.hi ELSE (s.lo + s.hi) / 2 END
    FROM search AS s
    CROSS JOIN LATERAL (
        SELECT e.id, e.at FROM event AS e
        WHERE e.tenant_id = :tenant AND e.id >= (s.lo + s.hi) / 2
        ORDER BY e.id LIMIT 1
    ) AS probe
    WHERE s.lo < s.hi
)
SELECT coalesce(max(lo), 0) FROM search;

-- read fresh: event_by_id(tenant bigint, event bigint) -> EventRow | None
SELECT {event_columns} FROM event AS e {event_joins} WHERE e.tenant_id = :tenant AND e.id = :event;

-- read fresh: newest_event_id(tenant bigint) -> int | None
SELECT e.id FROM event AS e WHERE e.tenant_id = :tenant ORDER BY e.id DESC LIMIT 1;

-- read fresh: known_actions(tenant bigint) -> list[str]
-- One index step per action, however long the log.
WITH RECURSIVE step (action) AS (
    (SELECT e.action FROM event AS e WHERE e.tenant_id = :tenant ORDER BY e.action LIMIT 1)
    UNION ALL
    SELECT (
        SELECT e.action FROM event AS e
        WHERE e.tenant_id = :tenant AND e.action > step.action
        ORDER BY e.action LIMIT 1
    )
    FROM step WHERE step.action IS NOT NULL
)
SELECT action FROM step WHERE action IS NOT NULL LIMIT 200;

/* fragment: verification
e.id, e.at, e.actor, e.after ->> 'ok' AS ok
*/

-- An event without `full` was written by a release that made only full verifications.
/* fragment: read_in_full
e.after ->> 'ok' = 'true' AND coalesce(e.after ->> 'full', 'true') = 'true'
*/

-- read fresh: seal_status(tenant bigint) -> SealStatus
-- `covered` walks downwards from the last event of the last seal: from the newest event it would read everything since
-- then, if the sealer stopped long ago. `verified` looks at the tenant's events and at events of no tenant in two
-- parts, with an index step for each: with OR, Postgres would search the whole log.
WITH last AS (
    SELECT s.to_xid, s.at, (SELECT max(id) FROM unnest(s.event_ids) AS ids (id)) AS top
    FROM seal AS s ORDER BY s.to_xid DESC LIMIT 1
),
covered AS (
    SELECT found.id, found.at
    FROM last CROSS JOIN LATERAL (
        SELECT e.id, e.at FROM event AS e
        WHERE e.tenant_id = :tenant AND e.id <= last.top AND e.xid < last.to_xid
        ORDER BY e.id DESC LIMIT 1
    ) AS found
),
open AS (
    SELECT e.at FROM event AS e
    WHERE e.tenant_id = :tenant AND e.xid >= coalesce((SELECT to_xid FROM last), 0)
    ORDER BY e.xid, e.id LIMIT 1000
),
verified AS (
    SELECT * FROM (
        (SELECT {verification} FROM event AS e
         WHERE e.tenant_id = :tenant AND e.action = 'audit.verified' ORDER BY e.id DESC LIMIT 1)
        UNION ALL
        (SELECT {verification} FROM event AS e
         WHERE e.tenant_id IS NULL AND e.action = 'audit.verified' ORDER BY e.id DESC LIMIT 1)
    ) AS either
    ORDER BY id DESC LIMIT 1
),
whole AS (
    SELECT e.at FROM event AS e
    WHERE e.tenant_id IS NULL AND e.action = 'audit.verified' AND {read_in_full}
    ORDER BY e.id DESC LIMIT 1
)
SELECT (SELECT id FROM covered) AS event_id, (SELECT at FROM covered) AS event_at, (SELECT at FROM last) AS sealed_at,
       (SELECT count(*) FROM open) AS waiting, (SELECT min(at) FROM open) AS waiting_since,
       (SELECT at FROM verified) AS verified_at, coalesce((SELECT actor FROM verified), '') AS verified_by,
       (SELECT ok = 'true' FROM verified) AS verified_ok, (SELECT at FROM whole) AS verified_in_full_at,
       coalesce((SELECT to_xid FROM last), 0) AS to_xid;


-- read fresh: verifications() -> Verifications
WITH last AS (
    SELECT e.at, e.after ->> 'problem' AS problem, e.after ->> 'ok' = 'true' AS ok FROM event AS e
    WHERE e.tenant_id IS NULL AND e.action = 'audit.verified' ORDER BY e.id DESC LIMIT 1
)
SELECT (SELECT at FROM last) AS at, (SELECT ok FROM last) AS ok, coalesce((SELECT problem FROM last), '') AS problem,
       (
           SELECT e.at FROM event AS e
           WHERE e.tenant_id IS NULL AND e.action = 'audit.verified' AND {read_in_full}
           ORDER BY e.id DESC LIMIT 1
       ) AS in_full_at;


/* fragment: newest_archive
e.id, e.after FROM event AS e
    WHERE e.tenant_id IS NULL AND e.action = 'audit.archived' ORDER BY e.id DESC LIMIT 1
*/

-- read fresh: archived_last() -> ArchivedLog | None
SELECT (a.after ->> 'until')::timestamptz AS until, (a.after ->> 'events')::bigint AS events
FROM (SELECT {newest_archive}) AS a;


-- Seals

-- write: lock_sealing(lock bigint) -> bool
SELECT pg_try_advisory_xact_lock(:lock);

-- write: sealable() -> tuple[int, int]
-- The positions to seal, from the end of the last seal up to, not including, the snapshot's xmin: no event can still
-- appear below xmin.
SELECT coalesce((SELECT max(s.to_xid) FROM seal AS s), 0),
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint + event_shift();

-- write: transaction_beyond(from_xid bigint, to_xid bigint, most int) -> int | None
SELECT e.xid FROM event AS e
WHERE e.xid >= :from_xid AND e.xid < :to_xid
ORDER BY e.xid, e.id LIMIT 1 OFFSET :most;

/* fragment: newest_move
e.id, e.after FROM event AS e
    WHERE e.tenant_id IS NULL AND e.action = 'audit.moved' ORDER BY e.id DESC LIMIT 1
*/

/* fragment: newest_mark
e.id, e.after -> 'mark' AS mark FROM event AS e
    WHERE e.tenant_id IS NULL AND e.action = 'audit.verified' AND e.after ? 'mark' ORDER BY e.id DESC LIMIT 1
*/

-- read fresh: seal_state() -> SealState
-- `at_xid` is the position of the next transaction, `open_xid` that of the oldest running one, `waiting` the oldest
-- event without a seal.
WITH last AS (SELECT s.to_xid, s.at FROM seal AS s ORDER BY s.to_xid DESC LIMIT 1),
waiting AS (
    SELECT e.xid, e.at FROM event AS e
    WHERE e.xid >= coalesce((SELECT to_xid FROM last), 0) ORDER BY e.xid, e.id LIMIT 1
),
farthest AS (SELECT e.id, e.xid FROM event AS e ORDER BY e.xid DESC, e.id DESC LIMIT 1)
SELECT cluster() AS cluster,
       coalesce((
           SELECT either.cluster FROM (
               SELECT m.id, m.mark ->> 'cluster' AS cluster FROM (SELECT {newest_mark}) AS m
               UNION ALL
               SELECT m.id, m.after ->> 'cluster' AS cluster FROM (SELECT {newest_move}) AS m
           ) AS either
           ORDER BY either.id DESC LIMIT 1
       ), '') AS known_in,
       coalesce((SELECT to_xid FROM last), 0) AS sealed_to, (SELECT at FROM last) AS sealed_at,
       event_shift() + greatest(
           pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_current_xact_id_if_assigned()::text::bigint + 1
       ) AS at_xid,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint + event_shift() AS open_xid,
       (SELECT id FROM farthest) AS farthest_id, coalesce((SELECT xid FROM farthest), 0) AS farthest_xid,
       (SELECT xid FROM waiting) AS waiting_xid, (SELECT at FROM waiting) AS waiting_since,
       coalesce(extract(EPOCH FROM clock_timestamp() - (SELECT at FROM waiting)), 0)::float8 AS waited,
       (SELECT count(*) FROM worker AS w WHERE th_alive(w)) AS workers;

-- write: first_transaction(from_xid bigint) -> int | None
SELECT min(e.xid) FROM event AS e WHERE e.xid >= :from_xid;

-- read: event_leaves(from_xid bigint, to_xid bigint, from_id bigint, to_id bigint) -> Leaves
-- All events are returned in one row, which is faster to read than thousands of rows.
SELECT count(*) AS count, array_agg(e.id ORDER BY e.xid, e.id)::text AS event_ids,
       string_agg(event_digest(e), '' ORDER BY e.xid, e.id) AS digests
FROM event AS e WHERE e.xid >= :from_xid AND e.xid < :to_xid AND e.id >= :from_id AND e.id <= :to_id;

-- write: store_seal(from_xid bigint, to_xid bigint, count int, event_ids bigint[], leaves bytea, root bytea,
--     previous bytea, signature bytea, key_id text) -> None
INSERT INTO seal (from_xid, to_xid, count, event_ids, leaves, root, previous, signature, key_id)
VALUES (:from_xid, :to_xid, :count, :event_ids, :leaves, :root, :previous, :signature, :key_id);


-- Verification

-- read fresh: verified_before() -> _Before
-- Only the mark is signed. An event of a success without a mark may be forged, so a failure counts even if a success
-- follows it.
WITH marked AS (SELECT {newest_mark}),
archived AS (SELECT {newest_archive}),
moved AS (SELECT {newest_move}),
timed AS (
    SELECT e.after FROM event AS e
    WHERE e.tenant_id IS NULL AND e.action = 'audit.verified' AND {read_in_full} AND e.after ? 'seconds'
    ORDER BY e.id DESC LIMIT 1
)
SELECT clock_timestamp() AS now, (SELECT id FROM marked) AS event_id, (SELECT mark FROM marked) AS mark,
       (SELECT id FROM archived) AS archived_in, (SELECT after FROM archived) AS archived,
       (SELECT id FROM moved) AS moved_in, (SELECT after FROM moved) AS moved,
       (SELECT max(e.at) FROM event AS e
        WHERE e.tenant_id IS NULL AND e.action = 'audit.verified' AND e.after ->> 'ok' = 'false') AS failed_at,
       coalesce((SELECT (after ->> 'events')::bigint FROM timed), 0) AS timed_events,
       coalesce((SELECT (after ->> 'seals')::bigint FROM timed), 0) AS timed_seals,
       coalesce((SELECT (after ->> 'seconds')::float8 FROM timed), 0) AS timed_seconds;

-- read: sealed_above(above bigint) -> tuple[int, int]
-- The number of events and the number of seals above a position.
SELECT coalesce(sum(s.count), 0)::bigint, count(*) FROM seal AS s WHERE s.to_xid > :above;

/* fragment: seal_head
s.id, s.from_xid, s.to_xid, s.count, s.root, s.previous, s.signature
*/

-- read: seal_heads(above bigint, up_to bigint, most int) -> list[StoredSeal]
SELECT {seal_head} FROM seal AS s WHERE s.to_xid > :above AND s.to_xid <= :up_to ORDER BY s.to_xid LIMIT :most;

-- read: seals_with_leaves(above bigint, most int, events bigint) -> list[StoredSeal]
-- At least one seal, if there is any. A further seal is returned as long as the seals before it have fewer than
-- `events` events together.
SELECT {seal_head}, s.event_ids, s.leaves
FROM (
    SELECT s.*, sum(s.count) OVER (ORDER BY s.to_xid) - s.count AS before
    FROM seal AS s WHERE s.to_xid > :above ORDER BY s.to_xid LIMIT :most
) AS s
WHERE s.before < :events ORDER BY s.to_xid;

-- read: event_digests(from_xid bigint, to_xid bigint, to_id bigint) -> list[tuple[int, bytes]]
SELECT e.id, event_digest(e) FROM event AS e WHERE e.xid >= :from_xid AND e.xid < :to_xid AND e.id <= :to_id;

-- read: top_sealed(most int) -> int | None
-- The highest event id in a seal. It is in one of the last seals, since ids and transaction ids grow together, except
-- for concurrent transactions.
SELECT max(named.id) FROM (SELECT s.event_ids FROM seal AS s ORDER BY s.to_xid DESC LIMIT :most) AS s
CROSS JOIN LATERAL unnest(s.event_ids) AS named (id);

-- write: move_events(sealed_to bigint, top bigint) -> _Shifted
SELECT m.shift, m.late, m.first, m.last FROM event_moved(:sealed_to, :top) AS m;


-- Parts and archives

-- read fresh: newest_archived() -> _Newest
SELECT newest.id AS archived_in, newest.after AS archived
FROM (SELECT 1) AS one LEFT JOIN (SELECT {newest_archive}) AS newest ON true;

-- write: turn_event_part(size bigint, fewest bigint) -> str | None
SELECT event_part_turn(:size, :fewest);

-- read: event_parts() -> list[_Part]
-- `until` is the time of the part's last event.
SELECT p.name, p.from_id, p.to_id, (SELECT e.last_value FROM event_id_seq AS e) >= p.to_id AS closed,
       (
           SELECT e.at FROM event AS e WHERE e.id >= p.from_id AND e.id < p.to_id ORDER BY e.id DESC LIMIT 1
       ) AS until
FROM event_parts() AS p ORDER BY p.from_id;

-- read: archive_cut(from_id bigint, to_id bigint) -> int | None
-- The end of the first seal with which all events of the part are sealed; null while some of its events are not.
SELECT min(s.to_xid) FROM seal AS s
WHERE s.to_xid > (SELECT max(e.xid) FROM event AS e WHERE e.id >= :from_id AND e.id < :to_id);

-- read: events_in_part(from_id bigint, to_id bigint, below bigint) -> tuple[int, int]
-- The number of events in the part, and how many of these have positions below `below`: the previous archive has them
-- already.
SELECT count(*), count(*) FILTER (WHERE e.xid < :below) FROM event AS e WHERE e.id >= :from_id AND e.id < :to_id;

-- read: event_lines(from_xid bigint, to_xid bigint) -> list[tuple[int, str]]
SELECT e.id, event_line(e) FROM event AS e
WHERE e.xid >= :from_xid AND e.xid < :to_xid ORDER BY e.xid, e.id;

-- write: take_time() -> None
-- Turns the statement timeout off, because deleting a month of seals takes long. Sets a lock timeout of 2 s: while a
-- transaction waits for a lock on the table, all writers of events queue behind it.
SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '2s', true);

-- write: drop_event_part(part text, sealed_below bigint) -> None
SELECT event_part_drop(:part, :sealed_below);
