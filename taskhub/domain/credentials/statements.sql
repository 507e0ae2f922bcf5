-- Statements of OAuth towards servers. Format of this file: taskhub/store/statements.py.

-- The id of the person for whom a client acts and whose grant its calls need; null for a client that acts for itself.
/* fragment: person_of
th_user_of(c)
*/

-- read: credential(server bigint, context bigint) -> _Row | None
-- How a call of a client at a server is authorized, with the grant for it, or nulls if there is none. If `context` is
-- null, with the grant that belongs to nobody. No row if the server has no OAuth, or if each caller has a grant of its
-- own and the client does not exist any more.
SELECT s.tenant_id, s.name, s.target, s.sealed_target, o.way, o.issuer AS wanted_issuer, o.client_id AS given_id,
       o.client_secret, o.scopes AS wanted_scopes, o.found::text, h.user_id, h.context_id,
       g.id AS grant_id, coalesce(g.state, '') AS state, coalesce(g.problem, '') AS problem,
       coalesce(g.issuer, '') AS issuer, coalesce(g.client_id, '') AS client_id,
       coalesce(g.registered, '{}')::text AS registered, coalesce(g.scopes, '') AS scopes,
       g.access, g.refresh, g.expires_at, coalesce(g.version, 0) AS version,
       coalesce(g.refreshing_until > clock_timestamp(), false) AS refreshing,
       CASE WHEN g.refresh_after > clock_timestamp()
            THEN extract(EPOCH FROM g.refresh_after - clock_timestamp())::float8 END AS pause,
       coalesce(g.refreshed_at, g.granted_at) AS issued_at
FROM server_oauth AS o
JOIN server AS s ON s.id = o.server_id
LEFT JOIN auth_context AS c ON o.way = 'each' AND c.id = :context
CROSS JOIN LATERAL (SELECT {person_of} AS person) AS p
CROSS JOIN LATERAL (SELECT p.person AS user_id, CASE WHEN p.person IS NULL THEN c.id END AS context_id) AS h
LEFT JOIN server_grant AS g ON g.server_id = o.server_id AND g.user_id IS NOT DISTINCT FROM h.user_id
                           AND g.context_id IS NOT DISTINCT FROM h.context_id
WHERE o.server_id = :server AND (:context IS NULL OR o.way <> 'each' OR c.id IS NOT NULL);

-- write: take_refresh(held bigint, version int, seconds float8) -> int | None
-- Takes the turn to refresh a grant, if its tokens are still those of this version and no other process has the turn.
UPDATE server_grant SET version = version + 1,
       refreshing_until = clock_timestamp() + make_interval(secs => :seconds)
WHERE id = :held AND version = :version AND state = 'good'
  AND (refreshing_until IS NULL OR refreshing_until <= clock_timestamp())
RETURNING version;

-- write: leave_refresh(held bigint, version int, pause float8) -> rowcount
-- Gives up the turn. If the authorization server said when it wants to be asked again, nobody takes a turn for `pause`
-- seconds.
UPDATE server_grant SET refreshing_until = NULL,
       refresh_after = clock_timestamp() + make_interval(secs => :pause)
WHERE id = :held AND version = :version;

-- write: store_tokens(held bigint, version int, access bytea, refresh bytea, expires timestamptz, scopes text)
--     -> bool | None
-- Stores the access and the refresh token together, if this process still has the turn; no row if it has not. If there
-- is no new refresh token, the old one stays. Returns whether the refresh has to be recorded, which is done once a day.
WITH before AS (
    SELECT g.id, coalesce(g.told_at < clock_timestamp() - interval '1 day', true) AS tells
    FROM server_grant AS g WHERE g.id = :held AND g.version = :version AND g.state = 'good' FOR UPDATE
)
UPDATE server_grant AS g SET access = :access, refresh = coalesce(:refresh, g.refresh), expires_at = :expires,
       scopes = CASE WHEN :scopes = '' THEN g.scopes ELSE :scopes END, refreshed_at = clock_timestamp(),
       refreshing_until = NULL, refresh_after = NULL, version = g.version + 1,
       told_at = CASE WHEN b.tells THEN clock_timestamp() ELSE g.told_at END
FROM before AS b WHERE g.id = b.id
RETURNING b.tells;

-- write: lapse_grant(held bigint, version int, problem text) -> int | None
-- Marks a grant as lapsed and erases its tokens, if they are still those of this version.
UPDATE server_grant SET state = 'lapsed', problem = :problem, access = NULL, refresh = NULL, expires_at = NULL,
       refreshing_until = NULL, version = version + 1
WHERE id = :held AND version = :version AND state = 'good'
RETURNING version;

-- read: grants_there(grants bigint[]) -> list[int]
SELECT g.id FROM server_grant AS g WHERE g.id = any(:grants) AND g.state = 'good';

-- read fresh: waiting_for_grant(server bigint, user int, context bigint, shared boolean) -> list[_Waiting]
-- The open questions that a new grant answers: all of the server if it is `shared`, otherwise those of the person or
-- the client.
SELECT q.task_id, q.key
FROM question AS q
JOIN task AS t ON t.id = q.task_id
JOIN tool AS l ON l.id = t.tool_id
JOIN server AS s ON s.id = l.server_id
JOIN auth_context AS c ON c.id = t.context_id
WHERE s.id = :server AND q.tenant_id = s.tenant_id AND q.closed_at IS NULL AND q.kind = 'authorization'
  AND (:shared OR {person_of} = :user OR ({person_of} IS NULL AND c.id = :context))
ORDER BY q.id;

-- read fresh: grants_of(server bigint) -> list[GrantRow]
SELECT g.id, g.user_id, g.context_id, coalesce(u.username, c.name, '') AS holder, g.state, g.problem, g.scopes,
       g.granted_by, g.granted_at, g.refreshed_at, g.expires_at, g.refresh IS NOT NULL AS refreshes
FROM server_grant AS g
LEFT JOIN auth_user AS u ON u.id = g.user_id
LEFT JOIN auth_context AS c ON c.id = g.context_id
WHERE g.server_id = :server
ORDER BY g.user_id IS NOT NULL OR g.context_id IS NOT NULL, holder, g.id;

-- read fresh: authorization_asked(question bigint) -> _Asked | None
-- The server that a question asks people to authorize, the holder that the grant will have, and the scopes that it
-- needs at least.
SELECT o.server_id, CASE WHEN o.way = 'each' THEN {person_of} END AS user_id,
       CASE WHEN o.way = 'each' AND {person_of} IS NULL THEN c.id END AS context_id,
       coalesce(q.params ->> 'scopes', '') AS scopes
FROM question AS q
JOIN task AS t ON t.id = q.task_id
JOIN auth_context AS c ON c.id = t.context_id
JOIN tool AS l ON l.id = t.tool_id
JOIN server_oauth AS o ON o.server_id = l.server_id
WHERE q.id = :question AND q.kind = 'authorization';
