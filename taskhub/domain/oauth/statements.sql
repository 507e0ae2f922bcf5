-- Statements of applications and consents. Format of this file: taskhub/store/statements.py.

-- read fresh: applications(tenant bigint, issuer text, application bigint, client text, most int)
--     -> list[ApplicationRow]
SELECT a.id, r.name AS own_name, r.client_id, r.registration_source AS source,
       r.client_type = 'confidential' AS confidential, r.redirect_uris, a.created_at, a.blocked_at,
       consents.n AS people, tokens.live AS live_tokens, tokens.used_at AS last_used_at
FROM application AS a
JOIN oauth2_provider_application AS r ON r.id = a.registration_id
CROSS JOIN LATERAL (SELECT count(*) AS n FROM consent AS s WHERE s.application_id = a.id) AS consents
CROSS JOIN LATERAL (
    SELECT (SELECT count(*) FROM oauth2_provider_accesstoken AS t
            JOIN consent AS s ON s.user_id = t.user_id AND s.application_id = a.id
            WHERE t.application_id = r.id AND t.expires > clock_timestamp()) AS live,
           (SELECT max(c.last_seen_at) FROM auth_context AS c
            WHERE c.tenant_id = a.tenant_id AND c.issuer = :issuer AND c.client_id = r.client_id) AS used_at
) AS tokens
WHERE a.tenant_id = :tenant
  AND (:application IS NULL OR a.id = :application)
  AND (:client IS NULL OR r.client_id = :client)
ORDER BY lower(coalesce(nullif(r.name, ''), r.client_id)), a.id LIMIT :most;

/* fragment: consents
consent AS s
JOIN application AS a ON a.id = s.application_id
JOIN oauth2_provider_application AS r ON r.id = a.registration_id
JOIN auth_user AS u ON u.id = s.user_id
LEFT JOIN auth_context AS c ON c.tenant_id = a.tenant_id AND c.issuer = :issuer
                           AND c.subject = 'user:' || u.id AND c.client_id = r.client_id
*/
/* fragment: live_tokens
(SELECT count(*) FROM oauth2_provider_accesstoken AS t
 WHERE t.application_id = r.id AND t.user_id = u.id AND t.expires > clock_timestamp())
*/

-- read fresh: consents(tenant bigint, issuer text, application bigint, context bigint, most int) -> list[ConsentRow]
SELECT s.id, u.id AS user_id, u.username, m.role, s.scopes, s.created_at, s.updated_at, {live_tokens} AS live_tokens,
       c.id AS context, c.last_seen_at AS last_used_at
FROM {consents}
LEFT JOIN membership AS m ON m.user_id = u.id AND m.tenant_id = a.tenant_id
WHERE a.tenant_id = :tenant AND a.id = :application AND (:context IS NULL OR c.id = :context)
ORDER BY u.username LIMIT :most;

-- read fresh: allowed(tenant bigint, issuer text, user bigint, most int) -> list[AllowedRow]
SELECT s.id, r.name AS own_name, r.client_id, r.registration_source AS source,
       r.client_type = 'confidential' AS confidential, a.blocked_at, s.scopes, s.updated_at,
       {live_tokens} AS live_tokens, c.last_seen_at AS last_used_at
FROM {consents}
WHERE a.tenant_id = :tenant AND u.id = :user
ORDER BY s.updated_at DESC, s.id LIMIT :most;
