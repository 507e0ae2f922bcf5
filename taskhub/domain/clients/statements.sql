-- Clients, what they declare, and their tokens. The format of this file: taskhub/store/statements.py.

-- What a client declares is read from its newest calls, because each call declares for itself (T26-03): "never" means
-- in none of these calls. `recent` has its LIMIT in the inner query: otherwise the search for recent tasks of a client
-- that stopped calling would read all its history. `tasks` is the JSON path of the tasks extension.
/* fragment: client_columns
c.id, c.name, c.issuer, c.subject, c.client_id, c.created_at, c.disabled_at,
tokens.live + signed.live AS live_tokens, tokens.total + signed.live AS tokens,
greatest(tokens.used_at, c.last_seen_at, calls.newest_at) AS last_used_at,
coalesce(tokens.address, '') AS last_address, recent.n AS tasks_30_days, running.n AS live_tasks,
coalesce(nullif(c.client_info, '{}'), calls.info, '{}')::text AS client_info,
calls.seen > 0 OR c.client_capabilities <> '{}' AS seen,
coalesce(calls.tasks, false) OR (c.client_capabilities #> :tasks) IS NOT NULL AS declares_tasks,
coalesce(calls.elicitation, false) OR c.client_capabilities ? 'elicitation' AS declares_elicitation,
coalesce(calls.sampling, false) OR c.client_capabilities ? 'sampling' AS declares_sampling,
calls.revision
*/
/* fragment: clients
auth_context AS c
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE a.revoked_at IS NULL
                            AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp())) AS live,
           count(*) AS total, max(a.last_used_at) AS used_at,
           (array_agg(a.last_address ORDER BY a.last_used_at DESC NULLS LAST))[1] AS address
    FROM access_token AS a WHERE a.context_id = c.id
) AS tokens
CROSS JOIN LATERAL (
    SELECT count(*) AS live FROM oauth2_provider_accesstoken AS t
    JOIN oauth2_provider_application AS r ON r.id = t.application_id AND r.client_id = c.client_id
    WHERE c.issuer = :issuer AND t.user_id::text = substr(c.subject, 6) AND t.expires > clock_timestamp()
) AS signed
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE newest.created_at > statement_timestamp() - interval '30 days') AS n
    FROM (SELECT t.created_at FROM task AS t WHERE t.context_id = c.id ORDER BY t.id DESC LIMIT :counted) AS newest
) AS recent
CROSS JOIN LATERAL (
    SELECT count(*) AS n
    FROM (SELECT FROM task AS t WHERE t.context_id = c.id AND t.ended_at IS NULL LIMIT :counted) AS counted
) AS running
CROSS JOIN LATERAL (
    SELECT count(*) AS seen, max(n.created_at) AS newest_at,
           (array_agg(n.client_info ORDER BY n.id DESC) FILTER (WHERE n.client_info <> '{}'))[1] AS info,
           (array_agg(n.revision ORDER BY n.id DESC))[1] AS revision,
           bool_or((n.client_capabilities #> :tasks) IS NOT NULL) AS tasks,
           bool_or(n.client_capabilities ? 'elicitation') AS elicitation,
           bool_or(n.client_capabilities ? 'sampling') AS sampling
    FROM (SELECT t.id, t.created_at, t.client_info, t.client_capabilities, t.revision FROM task AS t
          WHERE t.context_id = c.id ORDER BY t.id DESC LIMIT :looked_at) AS n
) AS calls
*/

-- read fresh: client_page(tenant bigint, tasks text[], issuer text, counted int, looked_at int, state text, text text,
--     after bigint, after_name text, most int) -> list[ClientRow]
-- The page of clients is chosen first, so that the lateral joins run for these clients only.
SELECT {client_columns} FROM {clients}
WHERE c.tenant_id = :tenant AND c.id IN (
    SELECT p.id FROM auth_context AS p
    WHERE p.tenant_id = :tenant
      AND (:state IS NULL OR (p.disabled_at IS NOT NULL) = (:state = 'disabled'))
      AND (:text IS NULL OR concat_ws(' ', p.name, p.issuer, p.subject, p.client_id) ILIKE :text)
      AND (:after IS NULL OR (lower(p.name), p.id) > (lower(:after_name), :after))
    ORDER BY lower(p.name), p.id LIMIT :most
)
ORDER BY lower(c.name), c.id;

-- read fresh: client_detail(tenant bigint, context bigint, tasks text[], issuer text, counted int, looked_at int)
--     -> ClientRow | None
SELECT {client_columns} FROM {clients} WHERE c.tenant_id = :tenant AND c.id = :context;

-- read fresh: client_tokens(tenant bigint, context bigint) -> list[TokenRow]
SELECT a.id, a.prefix, a.scopes, a.created_at, a.expires_at, a.last_used_at, a.last_address, a.revoked_at
FROM access_token AS a JOIN auth_context AS c ON c.id = a.context_id
WHERE a.context_id = :context AND c.tenant_id = :tenant
ORDER BY (a.revoked_at IS NOT NULL), (a.expires_at < clock_timestamp()), a.id DESC LIMIT 200;

-- read fresh: call_to_copy(tenant bigint, context bigint, tool bigint, size int, looked_at int) -> _Copied | None
-- The newest call of the tool among the newest calls of the client; if there is none, among the newest of all clients.
-- Calls whose arguments take more than `size` bytes are left out.
WITH newest AS (
    (SELECT t.id, t.public_id, t.tool_id, t.context_id, t.arguments, t.client_info FROM task AS t
     WHERE t.context_id = :context AND t.tenant_id = :tenant ORDER BY t.id DESC LIMIT :looked_at)
    UNION ALL
    (SELECT t.id, t.public_id, t.tool_id, t.context_id, t.arguments, t.client_info FROM task AS t
     WHERE t.tenant_id = :tenant ORDER BY t.id DESC LIMIT :looked_at)
)
SELECT n.public_id, n.context_id = :context AS own, n.arguments, coalesce(n.client_info ->> 'name', '') AS program
FROM newest AS n
WHERE n.tool_id = :tool AND pg_column_size(n.arguments) <= :size
ORDER BY n.context_id = :context DESC, n.id DESC LIMIT 1;

/* fragment: caller_columns
c.id, c.name, c.issuer, c.subject, c.client_id, c.disabled_at, tokens.scopes, th_signed_in(c) AS person
*/
-- The scopes of a client are known if all of its tokens have the same scopes.
/* fragment: caller_rows
auth_context AS c
CROSS JOIN LATERAL (
    SELECT CASE WHEN count(DISTINCT a.scopes) = 1 THEN (array_agg(a.id))[1] END AS id
    FROM access_token AS a
    WHERE a.context_id = c.id AND c.issuer <> :oauth AND a.revoked_at IS NULL
      AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp())
) AS same
LEFT JOIN access_token AS tokens ON tokens.id = same.id
*/

-- read fresh: callers(tenant bigint, oauth text, text text, after bigint, after_name text, most int) -> list[CallerRow]
SELECT {caller_columns} FROM {caller_rows}
WHERE c.tenant_id = :tenant AND c.id IN (
    SELECT p.id FROM auth_context AS p
    WHERE p.tenant_id = :tenant
      AND (:text IS NULL OR concat_ws(' ', p.name, p.issuer, p.subject, p.client_id) ILIKE :text)
      AND (:after IS NULL OR (lower(p.name), p.id) > (lower(:after_name), :after))
    ORDER BY lower(p.name), p.id LIMIT :most
)
ORDER BY lower(c.name), c.id;

-- read fresh: caller(tenant bigint, context bigint, oauth text) -> CallerRow | None
SELECT {caller_columns} FROM {caller_rows} WHERE c.tenant_id = :tenant AND c.id = :context;

-- read: client_name(tenant bigint, context bigint) -> str | None
SELECT c.name FROM auth_context AS c WHERE c.tenant_id = :tenant AND c.id = :context;

-- read fresh: client_dialects(tenant bigint, context bigint, looked_at int, idle_days int, most int)
--     -> list[ClientDialect]
-- What a session declared counts even if it never called. In the stateless revisions only calls declare, each for
-- itself (T26-03).
WITH heard AS (
    (SELECT t.client_info, t.revision, t.client_capabilities, t.created_at AS at, NULL::bigint AS session
     FROM task AS t JOIN auth_context AS c ON c.id = t.context_id
     WHERE t.context_id = :context AND c.tenant_id = :tenant AND t.rerun_of_id IS NULL
     ORDER BY t.id DESC LIMIT :looked_at)
    UNION ALL
    (SELECT s.client_info, s.version, s.client_capabilities, s.seen_at, s.id
     FROM session AS s
     WHERE s.context_id = :context AND s.tenant_id = :tenant AND s.ended_at IS NULL
       AND s.seen_at > clock_timestamp() - make_interval(days => :idle_days)
     ORDER BY s.seen_at DESC LIMIT :looked_at)
)
SELECT h.client_info::text AS client_info, h.revision,
       (array_agg(h.client_capabilities ORDER BY h.at DESC))[1]::text AS capabilities,
       max(h.at) AS heard_at, count(DISTINCT h.session) AS sessions
FROM heard AS h GROUP BY h.client_info, h.revision ORDER BY max(h.at) DESC LIMIT :most;


-- How long a client's plain calls wait

-- read fresh: caller_settings(context bigint) -> _Settings
SELECT c.patience_ms, c.hub_tools FROM auth_context AS c WHERE c.id = :context;

-- read fresh: learned_patience(context bigint) -> list[LearnedRow]
-- What was learned for each program of the client, even if it is too uncertain to apply.
SELECT l.program, l.patience_ms, l.left_after_ms, l.leaves FROM learned_patience AS l
WHERE l.context_id = :context ORDER BY l.program;

-- write: learn_patience(context bigint, program text, patience int, left_after bigint, leaves int, certain int,
--     part float8, most int) -> int | None
-- While the patience is not certain, the longer one of the stored and the new value is kept. A certain patience only
-- gets shorter: to the new value, if that is certain too; otherwise not below what the previous caller's leaving gives,
-- because a single caller may have had another reason to leave. Returns the patience if it is certain; null if it is
-- not, and no row if nothing changed. Programs make up names. So at most `most` programs of a client are kept. Those
-- whose patience is not certain are deleted first, then those learned longest ago.
WITH room AS (
    DELETE FROM learned_patience AS d
    WHERE d.context_id = :context AND d.program IN (
            SELECT o.program FROM learned_patience AS o
            WHERE o.context_id = :context AND o.program <> :program
            ORDER BY o.leaves >= :certain DESC, o.learned_at DESC OFFSET :most - 1
        )
)
INSERT INTO learned_patience AS l (context_id, program, patience_ms, left_after_ms, leaves, learned_at)
VALUES (:context, :program, :patience, :left_after, :leaves, clock_timestamp())
ON CONFLICT (context_id, program) DO UPDATE
SET patience_ms = CASE WHEN l.leaves >= :certain AND :leaves >= :certain
                            THEN least(l.patience_ms, excluded.patience_ms)
                       WHEN l.leaves >= :certain
                            THEN least(l.patience_ms, greatest(excluded.patience_ms, (:part * l.left_after_ms)::int))
                       WHEN :leaves >= :certain THEN excluded.patience_ms
                       ELSE greatest(l.patience_ms, excluded.patience_ms) END,
    left_after_ms = excluded.left_after_ms, leaves = least(l.leaves + excluded.leaves, 1000000),
    learned_at = clock_timestamp()
WHERE l.leaves < :certain OR excluded.patience_ms < l.patience_ms
RETURNING CASE WHEN leaves >= :certain THEN patience_ms END;


-- Tokens

-- write: use_token(digest bytea, address text) -> _Token | None
UPDATE access_token AS a SET last_used_at = clock_timestamp(), last_address = :address
FROM auth_context AS c
WHERE a.digest = :digest AND a.revoked_at IS NULL AND c.id = a.context_id AND c.disabled_at IS NULL
  AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp())
RETURNING a.id, a.scopes, a.expires_at, c.id AS context_id, c.tenant_id, c.issuer, c.subject, c.client_id, c.name;

-- read: find_token(digest bytea) -> _Token | None
-- As use_token, for a database that accepts no writes.
SELECT a.id, a.scopes, a.expires_at, c.id AS context_id, c.tenant_id, c.issuer, c.subject, c.client_id, c.name
FROM access_token AS a JOIN auth_context AS c ON c.id = a.context_id
WHERE a.digest = :digest AND a.revoked_at IS NULL AND c.disabled_at IS NULL
  AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp());

/* fragment: oauth_token
oauth2_provider_accesstoken AS t
JOIN auth_user AS u ON u.id = t.user_id AND u.is_active
JOIN LATERAL (
    SELECT x.tenant_id, x.role, x.groups FROM membership AS x WHERE x.user_id = u.id ORDER BY x.tenant_id LIMIT 1
) AS m ON true
JOIN oauth2_provider_application AS r ON r.id = t.application_id
JOIN application AS a ON a.registration_id = r.id AND a.tenant_id = m.tenant_id AND a.blocked_at IS NULL
JOIN consent AS s ON s.application_id = a.id AND s.user_id = u.id
*/
/* fragment: of_oauth_client
t.token_checksum = :checksum AND t.expires > clock_timestamp()
AND c.tenant_id = m.tenant_id AND c.issuer = :issuer AND c.subject = 'user:' || u.id
AND c.client_id = r.client_id AND c.disabled_at IS NULL
*/
/* fragment: oauth_principal
t.scope, s.scopes AS consented, m.role, m.groups, u.username, t.resource, t.expires AS expires_at
*/

-- read: find_oauth_token(checksum text, issuer text) -> _OAuthToken | None
-- As use_oauth_token, for a database that accepts no writes.
SELECT {oauth_principal}, c.id AS context_id, c.tenant_id, c.subject, c.client_id, c.name
FROM {oauth_token} CROSS JOIN auth_context AS c
WHERE {of_oauth_client};

-- write: use_oauth_token(checksum text, issuer text) -> _OAuthToken | None
UPDATE auth_context AS c SET last_seen_at = clock_timestamp()
FROM {oauth_token}
WHERE {of_oauth_client}
RETURNING {oauth_principal}, c.id AS context_id, c.tenant_id, c.subject, c.client_id, c.name;

-- read: live_task_ids(context bigint, tenant bigint, most int) -> list[int]
SELECT t.id FROM task AS t
WHERE t.context_id = :context AND t.tenant_id = :tenant AND t.ended_at IS NULL AND t.cancel_requested_at IS NULL
ORDER BY t.id LIMIT :most;
