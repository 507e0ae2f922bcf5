-- Statements of rules. Format of this file: taskhub/store/statements.py.

/* fragment: version_columns
v.number, v.digest, v.made_at, v.made_by, v.reason, json_array_length(v.rules) AS size
*/

/* fragment: bypass_columns
b.id, b.reason, b.made_by AS begun_by, b.began_at, b.ends_at, b.server_id, coalesce(s.name, '') AS server
*/
/* fragment: bypass_in_force
bypass AS b LEFT JOIN server AS s ON s.id = b.server_id
WHERE b.tenant_id = :tenant AND b.ended_at IS NULL AND b.ends_at > clock_timestamp()
*/

-- read: present_rules(tenant bigint) -> RuleList
-- With the bypass that is in force, or null if there is none. Its `over_at` is the number of seconds that are left of
-- it.
SELECT coalesce(v.number, 0) AS version, coalesce(v.rules, '[]') AS rules, (
    SELECT row_to_json(f) FROM (
        SELECT {bypass_columns}, extract(EPOCH FROM b.ends_at - clock_timestamp()) AS over_at
        FROM {bypass_in_force}) AS f) AS bypass
FROM (VALUES (:tenant)) AS t (id)
LEFT JOIN LATERAL (SELECT r.number, r.rules FROM rule_version AS r WHERE r.tenant_id = t.id
                   ORDER BY r.number DESC LIMIT 1) AS v ON true;

-- read: present_bypass(tenant bigint) -> Bypass | None
SELECT {bypass_columns} FROM {bypass_in_force};

-- read fresh: bypasses(tenant bigint, most int) -> list[PastBypass]
SELECT {bypass_columns}, b.ended_at FROM bypass AS b LEFT JOIN server AS s ON s.id = b.server_id
WHERE b.tenant_id = :tenant ORDER BY b.id DESC LIMIT :most;

-- write: begin_bypass(tenant bigint, server bigint, minutes int, reason text, made_by text) -> int | None
-- The id of the new bypass; no row if there is a bypass already. Overdue bypasses have to be closed before.
INSERT INTO bypass (tenant_id, server_id, reason, made_by, began_at, ends_at)
SELECT :tenant, :server, :reason, :made_by, n.now, n.now + make_interval(mins => :minutes)
FROM (SELECT clock_timestamp() AS now) AS n
ON CONFLICT (tenant_id) WHERE ended_at IS NULL DO NOTHING
RETURNING id;

-- write: end_bypass(tenant bigint, bypass bigint) -> int | None
-- A trigger corrects `ended_at`.
UPDATE bypass AS b SET ended_at = clock_timestamp()
WHERE b.tenant_id = :tenant AND b.id = :bypass AND b.ended_at IS NULL AND b.ends_at > clock_timestamp()
RETURNING b.id;

-- write: close_overdue(tenant bigint) -> list[Overdue]
-- Records the end of bypasses whose time is over: of this tenant, or of all tenants if `tenant` is null.
UPDATE bypass AS b SET ended_at = b.ends_at
WHERE (:tenant IS NULL OR b.tenant_id = :tenant) AND b.ended_at IS NULL AND b.ends_at <= clock_timestamp()
RETURNING b.id, b.tenant_id;

-- read fresh: rule_versions(tenant bigint, before bigint, most int) -> list[VersionRow]
SELECT {version_columns} FROM rule_version AS v
WHERE v.tenant_id = :tenant AND (:before IS NULL OR v.number < :before)
ORDER BY v.number DESC LIMIT :most;

-- read: rule_version(tenant bigint, number int) -> Version | None
SELECT {version_columns}, v.rules FROM rule_version AS v WHERE v.tenant_id = :tenant AND v.number = :number;

-- write: add_rule_version(tenant bigint, expected int, rules json, digest text, made_by text,
--     reason text) -> int | None
-- The number of the new version; no row if the present version is not `expected`. If two transactions expect the same
-- version, the second waits for the first, and then finds the number taken.
INSERT INTO rule_version (tenant_id, number, rules, digest, made_by, reason)
SELECT :tenant, :expected + 1, :rules, :digest, :made_by, :reason
WHERE coalesce((SELECT max(v.number) FROM rule_version AS v WHERE v.tenant_id = :tenant), 0) = :expected
ON CONFLICT (tenant_id, number) DO NOTHING
RETURNING number;

-- write: note_governed(tenant bigint, user bigint) -> None
-- Records that the person changed the rules or somebody's rights, and so may not decide on calls that were made before.
UPDATE membership SET governed_at = clock_timestamp() WHERE tenant_id = :tenant AND user_id = :user;

-- read fresh: calls_to_try(tenant bigint, size int, most int) -> list[_Call]
-- The newest calls. `arguments` is null if they take more than `size` bytes.
SELECT t.public_id, t.tool_id, t.tool_name, t.created_at,
       CASE WHEN pg_column_size(t.arguments) <= :size THEN t.arguments END AS arguments,
       coalesce(t.client_info ->> 'name', '') AS program,
       c.id AS context_id, c.name, c.issuer, c.subject, c.client_id, t.decided -> 'scopes' AS scopes,
       th_signed_in(c) AS person
FROM task AS t JOIN auth_context AS c ON c.id = t.context_id
WHERE t.tenant_id = :tenant
ORDER BY t.id DESC
LIMIT :most;

-- read fresh: decided_approvals(tenant bigint, days int, size int, most int) -> list[_Decided]
-- The approvals that were closed last, with their calls. `arguments` is null if they take more than `size` bytes.
SELECT q.params #>> '{decided,rule}' AS rule, q.state = 'answered' AND NOT d.against AS approved,
       q.state = 'superseded' AND NOT d.against AND q.params -> 'edited' IS NULL AS withdrawn, q."group", q.quorum,
       coalesce(q.params #>> '{decided,risk}', 'low') AS risk,
       coalesce((q.params #>> '{decided,second_factor}')::boolean, false) AS second_factor,
       coalesce(q.params ->> 'asked_again' = 'preview_changed', false) AS preview_differed,
       coalesce(encode(q.definition_digest, 'hex'), '') AS definition, q.opened_at, q.closed_at,
       t.tool_id, t.created_at, CASE WHEN pg_column_size(t.arguments) <= :size THEN t.arguments END AS arguments,
       coalesce(t.client_info ->> 'name', '') AS program, c.id AS context_id, c.name, c.issuer, c.subject, c.client_id,
       t.decided -> 'scopes' AS scopes, th_signed_in(c) AS person
FROM question AS q
JOIN task AS t ON t.id = q.task_id
JOIN auth_context AS c ON c.id = t.context_id
CROSS JOIN LATERAL (
    SELECT q.params -> 'edited' IS NOT NULL
        OR EXISTS (SELECT FROM decision AS o WHERE o.question_id = q.id AND o.verdict <> 'approve') AS against
) AS d
WHERE q.tenant_id = :tenant AND q.kind = 'approval' AND q.closed_at > now() - make_interval(days => :days)
ORDER BY q.closed_at DESC, q.id DESC
LIMIT :most;

-- read: dismissed_proposals(tenant bigint, contexts bigint[], tools bigint[]) -> list[_Dismissed]
SELECT d.rule, d.context_id, d.tool_id, d.approved FROM dismissed_proposal AS d
WHERE d.tenant_id = :tenant AND d.context_id = any(:contexts) AND d.tool_id = any(:tools);

-- write: dismiss_proposal(tenant bigint, rule text, context bigint, tool bigint, approved int,
--     dismissed_by text) -> None
INSERT INTO dismissed_proposal (tenant_id, rule, context_id, tool_id, approved, dismissed_by)
VALUES (:tenant, :rule, :context, :tool, :approved, :dismissed_by)
ON CONFLICT (tenant_id, context_id, tool_id, rule) DO UPDATE
SET approved = excluded.approved, dismissed_by = excluded.dismissed_by, dismissed_at = clock_timestamp();

-- read: tenants_with_blocks(words text) -> list[int]
-- The tenants whose rules in force contain `words`.
SELECT t.id FROM tenant AS t
JOIN LATERAL (
    SELECT r.rules FROM rule_version AS r WHERE r.tenant_id = t.id ORDER BY r.number DESC LIMIT 1
) AS v ON position(:words IN v.rules::text) > 0
ORDER BY t.id;
