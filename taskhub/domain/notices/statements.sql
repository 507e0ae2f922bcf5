-- Notices, their deliveries, and webhooks. The statements of news for people are in people_statements.sql.
-- The format: taskhub/store/statements.py.

-- Queued from the feed

-- write: wanting_webhooks(tenants bigint[], most int, most_failing int, failing_seconds float8) -> list[_Wanting]
-- `full`: as many notices wait for the webhook as may: `most`, or `most_failing` if it has not answered for
-- `failing_seconds`. The webhooks are locked, so that none is removed before its notices are stored.
SELECT w.id, w.tenant_id, w.kinds, w.context_id, (
           SELECT count(*) FROM (
               SELECT FROM notice AS n WHERE n.webhook_id = w.id AND n.state = 'due' LIMIT b.most
           ) AS waiting
       ) >= b.most AS "full"
FROM webhook AS w
CROSS JOIN LATERAL (
    SELECT CASE WHEN w.failing_since < statement_timestamp() - make_interval(secs => :failing_seconds)
                THEN :most_failing ELSE :most END AS most
) AS b
WHERE w.tenant_id = any(:tenants) AND w.enabled
ORDER BY w.id FOR KEY SHARE OF w;

-- write: skip_unwanted(consumer text) -> rowcount
-- Moves the consumer behind all events that can be read (see the feed's statements), without reading them, if there is
-- no enabled webhook. A webhook that is stored meanwhile is not seen here, and neither is any event after that.
UPDATE feed_consumer AS c SET xid = n.xid, event_id = n.id, moved_at = clock_timestamp()
FROM (
    SELECT e.xid, e.id FROM event AS e
    WHERE e.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint + event_shift()
    ORDER BY e.xid DESC, e.id DESC LIMIT 1
) AS n
WHERE c.name = :consumer AND (n.xid, n.id) > (c.xid, c.event_id)
  AND NOT EXISTS (SELECT FROM webhook AS w WHERE w.enabled);

-- read: news(events bigint[]) -> list[_News]
-- `decided`: only the last decision on a question has decided it; earlier approvals were only counted.
SELECT e.id AS event_id, t.context_id, t.public_id AS task, t.tool_name AS tool, s.name AS server, c.name AS client,
       t.state, t.is_error AS tool_error, q.key, q.params,
       coalesce(q.state = 'answered' AND (
           SELECT (d.actor = e.actor AND d.user_id IS NOT DISTINCT FROM e.user_id) FROM decision AS d
           WHERE d.question_id = q.id ORDER BY d.id DESC LIMIT 1
       ), false) AS decided
FROM unnest(:events) AS wanted (id)
JOIN event AS e ON e.id = wanted.id
JOIN task AS t ON t.id = e.task_id
JOIN auth_context AS c ON c.id = t.context_id
JOIN tool AS o ON o.id = t.tool_id
JOIN server AS s ON s.id = o.server_id
LEFT JOIN question AS q ON q.task_id = t.id AND q.key = e.after ->> 'key';

-- write: queue_notices(rows json) -> rowcount
INSERT INTO notice (public_id, tenant_id, event_id, kind, channel, webhook_id, body, state, ended_at, problem)
SELECT r.public_id, r.tenant, r.event, r.kind, 'webhook', r.webhook, r.body,
       CASE WHEN r."full" THEN 'failed' ELSE 'due' END, CASE WHEN r."full" THEN clock_timestamp() END,
       CASE WHEN r."full" THEN 'Not sent: too many wait for this webhook' ELSE '' END
FROM json_to_recordset(:rows) AS r (
    public_id text, tenant bigint, event bigint, kind text, webhook bigint, body text, "full" boolean
)
ON CONFLICT DO NOTHING;

-- write: queue_test(public_id text, tenant bigint, webhook bigint, kind text, body text) -> None
INSERT INTO notice (public_id, tenant_id, kind, channel, webhook_id, body)
VALUES (:public_id, :tenant, :kind, 'webhook', :webhook, :body);


-- Delivered

/* fragment: takeable
n.state = 'due' AND n.due_at <= statement_timestamp()
    AND (n.lease_until IS NULL OR n.lease_until < statement_timestamp())
*/

-- read: notices_due() -> bool
SELECT exists(
    SELECT FROM notice AS n JOIN webhook AS w ON w.id = n.webhook_id AND w.enabled WHERE {takeable}
);

-- write: lock_receivers(most int) -> list[int]
-- Locks webhooks for which a notice is due until the transaction ends: those whose notice has been due for the longest
-- time first. A webhook from which another worker is taking notices is left out.
SELECT w.id FROM webhook AS w
CROSS JOIN LATERAL (
    SELECT n.due_at FROM notice AS n WHERE n.webhook_id = w.id AND {takeable} ORDER BY n.due_at LIMIT 1
) AS first
WHERE w.enabled
ORDER BY first.due_at LIMIT :most FOR NO KEY UPDATE OF w SKIP LOCKED;

-- write: take_notices(webhooks bigint[], each int, most int, lease_seconds float8) -> list[_Row]
-- Of each webhook, as many notices as may be under way at a time: `each`, or one if the webhook does not answer. The
-- first notice of every webhook comes before the second of any.
WITH room AS (
    SELECT w.id, w.sealed_url, w.sealed_secret,
           CASE WHEN w.before_until > statement_timestamp() THEN w.sealed_secret_before END AS sealed_before,
           CASE WHEN w.failing_since IS NULL THEN :each ELSE 1 END - (
               SELECT count(*) FROM notice AS n
               WHERE n.webhook_id = w.id AND n.lease_until >= statement_timestamp()
           ) AS free
    FROM webhook AS w WHERE w.id = any(:webhooks)
),
picked AS (
    SELECT p.id FROM room AS r
    CROSS JOIN LATERAL (
        SELECT n.id, n.due_at FROM notice AS n WHERE n.webhook_id = r.id AND {takeable}
        ORDER BY n.due_at, n.id LIMIT greatest(r.free, 0)
    ) AS p
    ORDER BY row_number() OVER (PARTITION BY r.id ORDER BY p.due_at, p.id), p.due_at, p.id LIMIT :most
),
taken AS (
    UPDATE notice AS n SET attempts = n.attempts + 1,
           lease_until = clock_timestamp() + make_interval(secs => :lease_seconds)
    FROM picked AS p WHERE n.id = p.id AND {takeable}
    RETURNING n.id, n.tenant_id, n.webhook_id, n.public_id, n.kind, n.body, n.attempts, n.failures, n.early_failures,
              coalesce(n.planned_at > statement_timestamp(), false) AS early
),
begun AS (
    INSERT INTO delivery (notice_id, number) SELECT t.id, t.attempts FROM taken AS t
)
SELECT t.id, t.tenant_id, t.webhook_id, t.public_id, t.kind, t.body, t.attempts AS number, t.early, t.failures,
       t.early_failures, r.sealed_url, r.sealed_secret, r.sealed_before
FROM taken AS t JOIN room AS r ON r.id = t.webhook_id ORDER BY t.id;

-- write: end_delivery(notice bigint, number int, early boolean, ok boolean, status int, answer text, problem text,
--     pause_seconds float8, rest_seconds float8) -> None
SELECT end_delivery(:notice, :number, :early, :ok, :status, :answer, :problem, :pause_seconds, :rest_seconds);

-- write: fail_waiting(webhook bigint, problem text) -> rowcount
UPDATE notice SET state = 'failed', ended_at = clock_timestamp(), lease_until = NULL, problem = :problem
WHERE webhook_id = :webhook AND state = 'due';

-- write: hasten_waiting(webhook bigint) -> rowcount
UPDATE notice SET due_at = clock_timestamp()
WHERE webhook_id = :webhook AND state = 'due' AND lease_until IS NULL AND due_at > clock_timestamp();

-- write: send_again(tenant bigint, webhook bigint, public_id text) -> rowcount
-- The webhook is locked: otherwise a transaction that disables it at the same time could miss this notice.
WITH receiver AS (
    SELECT w.id FROM webhook AS w WHERE w.id = :webhook AND w.tenant_id = :tenant AND w.enabled FOR SHARE
)
UPDATE notice AS n SET state = 'due', ended_at = NULL, due_at = clock_timestamp(), problem = ''
FROM receiver AS r WHERE n.webhook_id = r.id AND n.public_id = :public_id AND n.lease_until IS NULL;

-- write: purge_notices(retention_days int, most int) -> rowcount
DELETE FROM notice WHERE id IN (
    SELECT n.id FROM notice AS n
    WHERE n.queued_at < statement_timestamp() - make_interval(days => :retention_days)
    ORDER BY n.queued_at LIMIT :most FOR UPDATE SKIP LOCKED
);


-- Shown

-- read fresh: notice_log(tenant bigint, webhook bigint, most int) -> list[NoticeRow]
SELECT n.public_id, n.kind, n.state, n.queued_at, n.due_at, n.ended_at, n.attempts, n.problem, n.body,
       d.status, coalesce(d.answer, '') AS answer,
       (extract(EPOCH FROM d.ended_at - d.began_at) * 1000)::int AS milliseconds, d.began_at,
       coalesce(n.lease_until > statement_timestamp(), false) AS under_way
FROM notice AS n
LEFT JOIN LATERAL (
    SELECT * FROM delivery AS d WHERE d.notice_id = n.id ORDER BY d.number DESC LIMIT 1
) AS d ON true
WHERE n.tenant_id = :tenant AND n.webhook_id = :webhook
ORDER BY n.id DESC LIMIT :most;

-- read fresh: notice_backlog() -> Backlog
SELECT (SELECT count(*) FROM (SELECT FROM notice AS n
                              WHERE n.state = 'due' AND n.channel = 'webhook' LIMIT 10000) AS due)::int AS due,
       (SELECT count(*) FROM webhook AS w WHERE w.enabled AND w.failing_since IS NOT NULL)::int AS failing;

-- read fresh: failing_webhooks(most int) -> list[FailingWebhook]
SELECT w.name, w.problem FROM webhook AS w WHERE w.enabled AND w.failing_since IS NOT NULL
ORDER BY w.failing_since, w.id LIMIT :most;

-- read fresh: silent_webhooks(tenant bigint, seconds float8) -> list[SilentWebhook]
SELECT w.id, w.name, w.failing_since FROM webhook AS w
WHERE w.tenant_id = :tenant AND w.enabled
  AND w.failing_since < statement_timestamp() - make_interval(secs => :seconds)
ORDER BY w.failing_since, w.id;

-- read fresh: webhook_rows(tenant bigint, webhook bigint, most int) -> list[WebhookRow]
SELECT w.id, w.name, w.origin, w.kinds, w.context_id, c.name AS client, w.enabled, w.disabled_why, w.failing_since,
       w.problem, (
           SELECT count(*) FROM (
               SELECT FROM notice AS n WHERE n.webhook_id = w.id AND n.state = 'due' LIMIT :most
           ) AS due
       )::int AS waiting, (
           SELECT CASE WHEN n.due_at > statement_timestamp() THEN n.due_at END
           FROM notice AS n WHERE n.webhook_id = w.id AND n.state = 'due' ORDER BY n.due_at, n.id LIMIT 1
       ) AS next_at,
       w.made_at, CASE WHEN w.before_until > statement_timestamp() THEN w.before_until END AS before_until,
       (
           SELECT n.ended_at FROM notice AS n
           WHERE n.webhook_id = w.id AND n.state = 'sent' ORDER BY n.id DESC LIMIT 1
       ) AS sent_at
FROM webhook AS w LEFT JOIN auth_context AS c ON c.id = w.context_id
WHERE w.tenant_id = :tenant AND (:webhook IS NULL OR w.id = :webhook)
ORDER BY w.name;
