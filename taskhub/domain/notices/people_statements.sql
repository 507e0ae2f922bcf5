-- News for people: what they want, and notices on the channels that reach them.
-- The format: taskhub/store/statements.py.

-- Whether the person can decide an open approval now, or answer another question that is only for people. The same as
-- an empty `obstacle` in domain/questions/statements.sql, but for many people at once.
-- Columns: m (membership), u (auth_user), q (question).
/* fragment: may_approve
m.role = any(:roles)
    AND (q."group" = '' OR q."group" = any(m.groups)
         OR EXISTS (SELECT FROM absence AS s WHERE s.deputy_id = m.id AND s.until > statement_timestamp())
         AND th_acts_for(q.id, m.user_id) IS NOT NULL)
    AND NOT EXISTS (
        SELECT FROM decision AS d
        WHERE d.question_id = q.id AND (d.user_id = m.user_id OR d.for_user_id = m.user_id))
    AND CASE WHEN q.called_at IS NULL OR q.due_at < statement_timestamp()
                  OR q.params #>> '{decided,not_requester}' = 'true'
                  OR q.called_at < greatest(m.granted_at, m.governed_at) THEN th_barred(q.id, m.user_id) = ''
             ELSE true END
*/
/* fragment: may_decide
q.closed_at IS NULL AND u.is_active AND CASE
    WHEN q.kind = 'approval' THEN {may_approve}
    WHEN q.audience <> 'operator' OR m.role <> all(:answerers) THEN false
    WHEN q.kind <> 'authorization' THEN true
    WHEN q.params ->> 'everyone' = 'true' THEN m.role = any(:managers)
    ELSE coalesce(q.params ->> 'user' = m.user_id::text, true) END
*/

-- Whether fewer than `most` notices wait for the person on the channel, so that another may. Columns: m (membership), a
-- (notice_address).
/* fragment: has_room
(
    SELECT count(*) FROM (
        SELECT FROM notice AS n
        WHERE n.user_id = m.user_id AND n.channel = a.channel AND n.state = 'due' LIMIT :most
    ) AS waiting
) < :most
*/

-- Queued from the feed

-- write: skip_unwanted_by_people(consumer text, channels text[]) -> rowcount
-- Moves the consumer behind all events that can be read, without reading them, if nobody wants a message on one of
-- these channels.
UPDATE feed_consumer AS c SET xid = n.xid, event_id = n.id, moved_at = clock_timestamp()
FROM (
    SELECT e.xid, e.id FROM event AS e
    WHERE e.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint + event_shift()
    ORDER BY e.xid DESC, e.id DESC LIMIT 1
) AS n
WHERE c.name = :consumer AND (n.xid, n.id) > (c.xid, c.event_id)
  AND NOT EXISTS (
      SELECT FROM notice_address AS a JOIN notice_choices AS g ON g.membership_id = a.choices_id
      WHERE a.channel = any(:channels) AND a.address <> '' AND cardinality(g.kinds) > 0);

-- read: wanting_people(events bigint[], roles text[], answerers text[], managers text[], channels text[], most int)
--     -> list[_Wanting]
-- The people who want news and can decide or answer the question of the event, once for each channel that reaches them.
-- Left out are people for whom `most` notices wait on the channel: they have the inbox.
SELECT e.id AS event_id, e.tenant_id, m.user_id, a.channel, q.id AS question_id, g.kinds
FROM unnest(:events) AS wanted (id)
JOIN event AS e ON e.id = wanted.id
JOIN question AS q ON q.task_id = e.task_id AND q.key = e.after ->> 'key'
JOIN membership AS m ON m.tenant_id = e.tenant_id
JOIN auth_user AS u ON u.id = m.user_id
JOIN notice_choices AS g ON g.membership_id = m.id
JOIN notice_address AS a ON a.choices_id = m.id AND a.channel = any(:channels)
WHERE a.address <> '' AND cardinality(g.kinds) > 0 AND {may_decide}
  AND {has_room}
ORDER BY m.id, a.channel, e.id;

-- read: wanting_admins(events bigint[], roles text[], admins text[], kind text, channels text[], most int)
--     -> list[_Wanting]
-- Administrators who want news of approvals that nobody, or too few people, can decide: once for each event and
-- channel.
SELECT e.id AS event_id, e.tenant_id, m.user_id, a.channel, q.id AS question_id, g.kinds
FROM unnest(:events) AS wanted (id)
JOIN event AS e ON e.id = wanted.id
JOIN question AS q ON q.task_id = e.task_id AND q.key = e.after ->> 'key'
JOIN membership AS m ON m.tenant_id = e.tenant_id AND m.role = any(:admins)
JOIN auth_user AS u ON u.id = m.user_id AND u.is_active
JOIN notice_choices AS g ON g.membership_id = m.id
JOIN notice_address AS a ON a.choices_id = m.id AND a.channel = any(:channels)
WHERE a.address <> '' AND :kind = any(g.kinds) AND th_undecidable(q, :roles)
  AND {has_room}
ORDER BY m.id, a.channel, e.id;

-- read: taken_on_by_deputies(events bigint[], kind text, roles text[], answerers text[], managers text[],
--     channels text[], most int) -> list[_Wanting]
-- For each event that somebody goes away: the open approvals that their deputy may decide for them, once for each
-- channel that reaches the deputy. Each is news of the event that asked for it, so that nobody is told of it twice.
SELECT o.id AS event_id, q.tenant_id, m.user_id, a.channel, q.id AS question_id, g.kinds
FROM unnest(:events) AS wanted (id)
JOIN event AS e ON e.id = wanted.id
JOIN membership AS gone ON gone.tenant_id = e.tenant_id AND gone.user_id = e.user_id
JOIN absence AS s ON s.membership_id = gone.id AND s.until > statement_timestamp()
JOIN membership AS m ON m.id = s.deputy_id
JOIN auth_user AS u ON u.id = m.user_id
JOIN notice_choices AS g ON g.membership_id = m.id AND :kind = any(g.kinds)
JOIN notice_address AS a ON a.choices_id = m.id AND a.channel = any(:channels) AND a.address <> ''
JOIN question AS q ON q.tenant_id = gone.tenant_id AND q.closed_at IS NULL AND q.kind = 'approval'
    AND (q.handed_to_id = gone.user_id OR q."group" = any(gone.groups))
CROSS JOIN LATERAL (
    SELECT max(w.id) AS id FROM event AS w
    WHERE w.task_id = q.task_id AND w.action IN ('question.asked', 'question.passed.on') AND w.after ->> 'key' = q.key
) AS o
WHERE o.id IS NOT NULL AND {may_decide} AND th_acts_for(q.id, m.user_id) = gone.user_id AND {has_room}
ORDER BY m.id, a.channel, o.id LIMIT :most;

-- write: queue_for_people(rows json, wait_seconds float8) -> rowcount
-- The notices are due some seconds later, so that those that are queued together go out in one message.
INSERT INTO notice (public_id, tenant_id, event_id, kind, channel, user_id, body, due_at)
SELECT r.public_id, r.tenant, r.event, r.kind, r.channel, r.person, r.body,
       clock_timestamp() + make_interval(secs => :wait_seconds)
FROM json_to_recordset(:rows)
    AS r (public_id text, tenant bigint, event bigint, kind text, channel text, person bigint, body text)
ON CONFLICT DO NOTHING;

-- write: queue_apart(public_id text, tenant bigint, user bigint, channel text, kind text, body text) -> None
-- A notice that is a message of its own.
INSERT INTO notice (public_id, tenant_id, kind, channel, user_id, body, message)
VALUES (:public_id, :tenant, :kind, :channel, :user, :body, :public_id);

-- read fresh: asked_apart(user bigint, channel text, kind text, hours int) -> int
-- How many notices of this kind the person was sent on the channel in the last `hours` hours.
SELECT count(*) FROM notice AS n
WHERE n.user_id = :user AND n.channel = :channel AND n.kind = :kind
  AND n.queued_at > statement_timestamp() - make_interval(hours => :hours);

-- write: look_again(tenant bigint, user bigint, channel text) -> rowcount
-- Makes the person's waiting notices due now, on the channel, or on all channels if it is null: their choices or
-- addresses have changed. The caller holds the lock of the addresses (`lock_addresses`).
UPDATE notice SET due_at = least(due_at, clock_timestamp())
WHERE user_id = :user AND tenant_id = :tenant AND state = 'due' AND attempts = 0
  AND (:channel IS NULL OR channel = :channel);

-- write: skip_waiting(tenant bigint, user bigint, channel text, confirm text, why text) -> rowcount
-- Skips what waits for the person on the channel, except messages that ask to confirm an address (`confirm`).
UPDATE notice SET state = 'skipped', ended_at = clock_timestamp(), lease_until = NULL, problem = :why
WHERE user_id = :user AND tenant_id = :tenant AND channel = :channel AND state = 'due' AND kind <> :confirm;


-- Delivered

/* fragment: takeable
n.channel = :channel AND n.state = 'due' AND n.due_at <= statement_timestamp()
    AND (n.lease_until IS NULL OR n.lease_until < statement_timestamp())
*/

-- read: due_to_people(channel text) -> bool
SELECT exists(SELECT n.id FROM notice AS n WHERE {takeable});

-- write: lock_readers(channel text, confirm text, apart text[], most int) -> list[_Reader]
-- People for whom a message is due on the channel, the one who has waited longest first, each with the notice that
-- comes first: of a message that asks to confirm an address; then of a test; then of a message that was tried before;
-- only then one that is in no message yet. `apart` are the kinds that are messages of their own. The addresses are
-- locked until the transaction ends. A person for whom another worker is taking a message is left out.
SELECT g.membership_id, a.id AS address_id, m.tenant_id, m.user_id, u.username, a.address, a.pending, g.kinds, g.pace,
       g.daily_at, g.quiet_from, g.quiet_until, g.zone,
       (SELECT s.until FROM absence AS s WHERE s.membership_id = g.membership_id) AS away_until,
       a.sent_at, f.kind, f.message, f.queued_at
FROM notice_address AS a
JOIN notice_choices AS g ON g.membership_id = a.choices_id
JOIN membership AS m ON m.id = g.membership_id
JOIN auth_user AS u ON u.id = m.user_id
CROSS JOIN LATERAL (
    SELECT n.kind, n.message, n.queued_at, n.due_at FROM notice AS n
    WHERE n.user_id = m.user_id AND n.tenant_id = m.tenant_id AND {takeable}
      AND (n.kind = :confirm OR a.address <> '')
      AND (n.message <> '' OR NOT EXISTS (
          SELECT FROM notice AS o
          WHERE o.user_id = m.user_id AND o.tenant_id = m.tenant_id AND o.channel = :channel AND o.state = 'due'
            AND o.message <> '' AND o.kind <> all(:apart)))
    ORDER BY n.kind = :confirm DESC, n.kind = any(:apart) DESC, n.message <> '' DESC, n.queued_at LIMIT 1
) AS f
WHERE a.channel = :channel AND u.is_active
ORDER BY f.due_at LIMIT :most FOR NO KEY UPDATE OF a SKIP LOCKED;

-- write: put_off(channel text, tenant bigint, user bigint, until timestamptz, apart text[]) -> rowcount
-- None of the person's notices that are due may leave before `until`.
UPDATE notice AS n SET due_at = :until
WHERE n.user_id = :user AND n.tenant_id = :tenant AND {takeable} AND n.kind <> all(:apart);

-- read: notices_of_message(channel text, tenant bigint, user bigint, message text, most int) -> list[int]
-- The notices of a message that was tried before; if `message` is empty, those that are in no message yet.
SELECT n.id FROM notice AS n
WHERE n.user_id = :user AND n.tenant_id = :tenant AND n.channel = :channel AND n.state = 'due' AND n.message = :message
  AND (n.lease_until IS NULL OR n.lease_until < statement_timestamp())
ORDER BY n.id LIMIT :most;

-- read: approvals_in(notices bigint[], tenant bigint, user bigint, roles text[], answerers text[], managers text[],
--     admins text[], kind text) -> list[_Told]
-- The questions that these notices are about, as they are now. `mine`: whether the question waits for the person.
-- `stuck`: for notices of the kind `kind`, whether still too few people can decide the question, and the person is an
-- administrator.
SELECT n.id AS notice_id, n.public_id, n.kind, q.id AS question_id, t.public_id AS task, q.key, t.tool_name AS tool,
       s.name AS server, c.name AS client, q.params, q."group", q.quorum, q.due_at,
       q.call_digest, {may_decide} AS mine,
       n.kind = :kind AND u.is_active AND m.role = any(:admins) AND th_undecidable(q, :roles) AS stuck
FROM notice AS n
JOIN question AS q ON q.id = (n.body::json ->> 'question')::bigint
JOIN task AS t ON t.id = q.task_id
JOIN auth_context AS c ON c.id = t.context_id
JOIN tool AS o ON o.id = t.tool_id
JOIN server AS s ON s.id = o.server_id
JOIN membership AS m ON m.tenant_id = :tenant AND m.user_id = :user
JOIN auth_user AS u ON u.id = m.user_id
WHERE n.id = any(:notices) ORDER BY q.opened_at, q.id, n.id;

-- write: skip_notices(notices bigint[], why text) -> rowcount
UPDATE notice SET state = 'skipped', ended_at = clock_timestamp(), lease_until = NULL, problem = :why
WHERE id = any(:notices) AND state = 'due';

-- write: begin_message(notices bigint[], message text, lease_seconds float8) -> list[_Begun]
WITH taken AS (
    UPDATE notice AS n SET attempts = n.attempts + 1, message = :message,
           lease_until = clock_timestamp() + make_interval(secs => :lease_seconds)
    WHERE n.id = any(:notices) AND n.state = 'due'
    RETURNING n.id, n.attempts
),
begun AS (
    INSERT INTO delivery (notice_id, number) SELECT t.id, t.attempts FROM taken AS t
)
SELECT t.id, t.attempts AS number FROM taken AS t ORDER BY t.id;

-- write: lock_addresses(membership bigint, channel text) -> rowcount
-- Addresses are locked before notices, as when notices are taken: otherwise two transactions could wait for each other.
-- If the channel is null, the addresses of all channels are locked.
SELECT FROM notice_address AS a
WHERE a.choices_id = :membership AND (:channel IS NULL OR a.channel = :channel)
ORDER BY a.channel FOR NO KEY UPDATE;

-- write: end_message(notices bigint[], numbers int[], ok boolean, status int, answer text, problem text,
--     pause_seconds float8) -> rowcount
-- A notice changes only if no later delivery was begun, which can happen after a lost lease.
WITH tried AS (SELECT * FROM unnest(:notices, :numbers) AS t (id, number)),
ended AS (
    UPDATE delivery AS d SET ended_at = clock_timestamp(), status = :status, answer = :answer, problem = :problem
    FROM tried AS t WHERE d.notice_id = t.id AND d.number = t.number AND d.ended_at IS NULL
)
UPDATE notice AS n SET lease_until = NULL, problem = :problem,
       state = CASE WHEN :ok THEN 'sent' WHEN :pause_seconds IS NULL THEN 'failed' ELSE 'due' END,
       ended_at = CASE WHEN :ok OR :pause_seconds IS NULL THEN clock_timestamp() END,
       due_at = clock_timestamp() + make_interval(secs => coalesce(:pause_seconds, 0))
FROM tried AS t WHERE n.id = t.id AND n.attempts = t.number AND n.state = 'due';

-- write: note_sent(membership bigint, channel text) -> rowcount
UPDATE notice_address SET sent_at = clock_timestamp() WHERE choices_id = :membership AND channel = :channel;

-- write: hurry_messages(channel text, begins text) -> rowcount
-- The channel's server answers again: messages to which it did not answer are due at once, if the address begins with
-- `begins`.
UPDATE notice AS n SET due_at = clock_timestamp()
WHERE n.channel = :channel AND n.state = 'due' AND n.lease_until IS NULL AND n.attempts > 0
  AND n.due_at > statement_timestamp()
  AND (SELECT d.status IS NULL FROM delivery AS d WHERE d.notice_id = n.id ORDER BY d.number DESC LIMIT 1)
  AND EXISTS (
      SELECT FROM membership AS m JOIN notice_address AS a ON a.choices_id = m.id AND a.channel = n.channel
      WHERE m.tenant_id = n.tenant_id AND m.user_id = n.user_id
        AND (starts_with(a.address, :begins) OR starts_with(a.pending, :begins)));


-- Shown

-- read fresh: backlog_to_people(channels text[], most int) -> list[PeopleBacklog]
-- For each channel, the notices that wait in all tenants, counted up to `most`. A notice that was never tried, and may
-- not leave yet by the person's choice, does not count for `oldest_seconds`.
SELECT c.name AS channel, count(d.id)::int AS due, (count(*) FILTER (WHERE d.problem <> ''))::int AS failing,
       coalesce(extract(EPOCH FROM statement_timestamp() - min(d.queued_at) FILTER (
           WHERE d.problem <> '' OR d.due_at <= statement_timestamp())), 0)::float8 AS oldest_seconds,
       coalesce((array_agg(d.problem ORDER BY d.id DESC) FILTER (WHERE d.problem <> ''))[1], '') AS problem
FROM unnest(:channels) AS c (name)
LEFT JOIN LATERAL (
    SELECT n.id, n.problem, n.queued_at, n.due_at FROM notice AS n
    WHERE n.state = 'due' AND n.user_id IS NOT NULL AND n.channel = c.name LIMIT :most
) AS d ON true
GROUP BY c.name ORDER BY c.name;

-- read fresh: message_log(tenant bigint, user bigint, channels text[], most int) -> list[MessageRow]
-- The newest messages to a person, each with its number of notices and its latest delivery. The notices of a channel
-- that are in no message yet are one row.
SELECT l.channel, l.message, l.kind, l.notices::int, l.state, l.queued_at, l.due_at, l.attempts, l.problem,
       l.under_way, d.status, coalesce(d.answer, '') AS answer, d.began_at
FROM (
    SELECT r.channel, r.message, min(r.kind) AS kind, count(*) AS notices, min(r.state) AS state,
           max(r.queued_at) AS queued_at, min(r.due_at) AS due_at, max(r.attempts) AS attempts,
           max(r.problem) AS problem, max(r.id) AS id,
           bool_or(coalesce(r.lease_until > statement_timestamp(), false)) AS under_way
    FROM unnest(:channels) AS c (name)
    CROSS JOIN LATERAL (
        SELECT * FROM notice AS n
        WHERE n.user_id = :user AND n.tenant_id = :tenant AND n.channel = c.name ORDER BY n.id DESC LIMIT 500
    ) AS r
    GROUP BY r.channel, r.message, r.state
    ORDER BY max(r.id) DESC LIMIT :most
) AS l
LEFT JOIN LATERAL (
    SELECT * FROM delivery AS d WHERE d.notice_id = l.id ORDER BY d.number DESC LIMIT 1
) AS d ON true
ORDER BY l.id DESC;
