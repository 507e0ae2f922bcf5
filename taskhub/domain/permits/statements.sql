-- Permits. The format of this file: taskhub/store/statements.py.

-- read fresh: owned_permit(public_id text, context bigint) -> Permit | None
SELECT p.public_id, n.slug AS tenant, c.issuer, c.subject, c.client_id, s.name AS server, o.name AS tool,
       o.exposed_name, encode(p.arguments_digest, 'hex') AS arguments_sha256, p.rules_version, p.asked, p.issued_at,
       p.expires_at, p.redeemed_at, p.expires_at <= clock_timestamp() AS expired, t.id AS task_id
FROM permit AS p
JOIN tenant AS n ON n.id = p.tenant_id
JOIN auth_context AS c ON c.id = p.context_id
JOIN tool AS o ON o.id = p.tool_id
JOIN server AS s ON s.id = o.server_id
LEFT JOIN task AS t ON t.public_id = p.public_id
WHERE p.public_id = :public_id AND p.context_id = :context;

-- write: issue_permit(id text, tenant bigint, context bigint, tool bigint, arguments text, definition text, rules int,
--     seconds int, passed jsonb, who text) -> datetime
SELECT issue_permit(:id, :tenant, :context, :tool, :arguments, :definition, :rules, :seconds, :passed, :who);

-- write: redeem_permit(id text, context bigint, arguments text, passed jsonb, who text) -> Redemption
SELECT redeem_permit(:id, :context, :arguments, :passed, :who);

-- write: purge_permits(kept_hours int, most int) -> rowcount
DELETE FROM permit WHERE id IN (
    SELECT p.id FROM permit AS p
    WHERE p.expires_at < statement_timestamp() - make_interval(hours => :kept_hours)
    ORDER BY p.expires_at LIMIT :most FOR UPDATE SKIP LOCKED
);
