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
-- With the bypass that is in force, if there is one: `over_at` are the seconds that are left of it.
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
-- The id of the new bypass; nothing if there is one already. Overdue ones have to be closed before.
INSERT INTO bypass (tenant_id, server_id, reason, made_by, began_at, ends_at)
SELECT :tenant, :server, :reason, :made_by, n.now, n.now + make_interval(mins => :minutes)
FROM (SELECT clock_timestamp() AS now) AS n
ON CONFLICT (tenant_id) WHERE ended_at IS NULL DO NOTHING
RETURNING id;

-- write: end_bypass(tenant bigint, bypass bigint) -> int | None
-- The trigger sets the time.
UPDATE bypass AS b SET ended_at = clock_timestamp()
WHERE b.tenant_id = :tenant AND b.id = :bypass AND b.ended_at IS NULL AND b.ends_at > clock_timestamp()
RETURNING b.id;

-- write: close_overdue(tenant bigint) -> list[Overdue]
-- Notes the end of bypasses whose time is over; `tenant` null for all tenants.
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
-- The number of the new version; nothing if the present version is not the expected one. Of two that expect the same,
-- the second waits for the first, and then finds the number taken.
INSERT INTO rule_version (tenant_id, number, rules, digest, made_by, reason)
SELECT :tenant, :expected + 1, :rules, :digest, :made_by, :reason
WHERE coalesce((SELECT max(v.number) FROM rule_version AS v WHERE v.tenant_id = :tenant), 0) = :expected
ON CONFLICT (tenant_id, number) DO NOTHING
RETURNING number;

-- write: note_governed(tenant bigint, user bigint) -> None
-- The person does not decide on calls that were made before.
UPDATE membership SET governed_at = clock_timestamp() WHERE tenant_id = :tenant AND user_id = :user;

-- read fresh: calls_to_try(tenant bigint, size int, most int) -> list[_Call]
-- The newest calls, each with its arguments if these take at most `size` bytes.
SELECT t.public_id, t.tool_id, t.tool_name, t.created_at,
       CASE WHEN pg_column_size(t.arguments) <= :size THEN t.arguments END AS arguments,
       coalesce(t.client_info ->> 'name', '') AS program,
       c.id AS context_id, c.name, c.issuer, c.subject, c.client_id, t.decided -> 'scopes' AS scopes,
       th_signed_in(c) AS person
FROM task AS t JOIN auth_context AS c ON c.id = t.context_id
WHERE t.tenant_id = :tenant
ORDER BY t.id DESC
LIMIT :most;
