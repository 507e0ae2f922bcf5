-- Statements of rules. Format of this file: taskhub/store/statements.py.

/* fragment: version_columns
v.number, v.digest, v.made_at, v.made_by, v.reason, json_array_length(v.rules) AS size
*/

-- read: present_rules(tenant bigint) -> RuleList | None
SELECT v.number AS version, v.rules FROM rule_version AS v WHERE v.tenant_id = :tenant ORDER BY v.number DESC LIMIT 1;

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
-- The newest calls; without the arguments of those that take more room than `size`.
SELECT t.public_id, t.tool_id, t.tool_name, t.created_at,
       CASE WHEN pg_column_size(t.arguments) <= :size THEN t.arguments END AS arguments,
       coalesce(t.client_info ->> 'name', '') AS program,
       c.id AS context_id, c.name, c.issuer, c.subject, c.client_id, t.decided -> 'scopes' AS scopes
FROM task AS t JOIN auth_context AS c ON c.id = t.context_id
WHERE t.tenant_id = :tenant
ORDER BY t.id DESC
LIMIT :most;
