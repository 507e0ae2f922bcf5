-- Who calls: tokens and sign-ins. The form: taskhub/store/statements.py.

-- write: use_token(digest bytea, address text) -> _Token | None
UPDATE access_token AS a SET last_used_at = clock_timestamp(), last_address = :address
FROM auth_context AS c
WHERE a.digest = :digest AND a.revoked_at IS NULL AND c.id = a.context_id AND c.disabled_at IS NULL
  AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp())
RETURNING a.id, a.scopes, a.expires_at, c.id AS context_id, c.tenant_id, c.issuer, c.subject, c.client_id, c.name;

-- write: use_oauth_token(checksum text, issuer text) -> _OAuthToken | None
UPDATE auth_context AS c SET last_seen_at = clock_timestamp()
FROM oauth2_provider_accesstoken AS t
JOIN auth_user AS u ON u.id = t.user_id AND u.is_active
JOIN LATERAL (
    SELECT x.tenant_id, x.role FROM membership AS x WHERE x.user_id = u.id ORDER BY x.tenant_id LIMIT 1
) AS m ON true
JOIN oauth2_provider_application AS r ON r.id = t.application_id
JOIN application AS a ON a.registration_id = r.id AND a.tenant_id = m.tenant_id AND a.blocked_at IS NULL
JOIN consent AS s ON s.application_id = a.id AND s.user_id = u.id
WHERE t.token_checksum = :checksum AND t.expires > clock_timestamp()
  AND c.tenant_id = m.tenant_id AND c.issuer = :issuer AND c.subject = 'user:' || u.id
  AND c.client_id = r.client_id AND c.disabled_at IS NULL
RETURNING t.scope, s.scopes AS consented, m.role, t.resource, t.expires AS expires_at,
    c.id AS context_id, c.tenant_id, c.subject, c.client_id, c.name;

-- write: purge_sign_ins(most int) -> rowcount
DELETE FROM sign_in WHERE digest = any(array(
    SELECT s.digest FROM sign_in AS s
    WHERE s.expire_date < statement_timestamp()
    ORDER BY s.expire_date LIMIT :most FOR UPDATE SKIP LOCKED
));
