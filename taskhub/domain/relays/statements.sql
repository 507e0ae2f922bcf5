-- Statements of relays and followed resources. Format of this file: taskhub/store/statements.py.

-- write: add_relay(relay bigint, context bigint, server bigint, method text, params text, capabilities text,
--     seconds float8, most int) -> str | None
SELECT add_relay(:relay, :context, :server, :method, :params, :capabilities, :seconds, :most);

-- write: take_outcome(relay bigint) -> _Taken
WITH taken AS (
    DELETE FROM relay WHERE id = :relay AND state = 'done' RETURNING outcome::text
)
SELECT exists(SELECT FROM relay AS r WHERE r.id = :relay) AS known, (SELECT outcome FROM taken) AS outcome;

-- write: drop_relay(relay bigint, channel text, hint text) -> None
WITH gone AS (
    DELETE FROM relay WHERE id = :relay RETURNING id, state
)
SELECT set_config('synchronous_commit', 'off', true), pg_notify(:channel, :hint)
FROM gone WHERE state = 'running';

-- write: claim_relays(worker text, servers bigint[], free int[]) -> list[RelayClaim]
SELECT id, server_id, server_name, method, params, capabilities, seconds, context_id
FROM claim_relays(:worker, :servers, :free);

-- write: finish_relay(relay bigint, worker text, outcome text) -> bool
SELECT finish_relay(:relay, :worker, :outcome);

-- write: sweep_relays() -> rowcount
DELETE FROM relay WHERE deadline < clock_timestamp() - interval '30 seconds';

-- write: sweep_interests() -> rowcount
DELETE FROM interest WHERE expires_at < clock_timestamp();


-- Followed resources

-- write: follow(holder text, servers bigint[], uris text[], seconds float8) -> None
SELECT follow(:holder, :servers, :uris, :seconds);

-- write: unfollow(holder text, channel text, hint text) -> None
WITH gone AS (
    DELETE FROM interest WHERE holder = :holder RETURNING id
)
SELECT set_config('synchronous_commit', 'off', true), pg_notify(:channel, :hint) FROM gone LIMIT 1;

-- write: unconfirmed(holder text) -> list[tuple[int, str]]
SELECT i.server_id, i.uri FROM interest AS i WHERE i.holder = :holder AND i.followed_at IS NULL;

-- write: followed_resources() -> list[tuple[int, str]]
SELECT DISTINCT i.server_id, i.uri FROM interest AS i;

-- write: mark_followed(server bigint, uris text[]) -> None
SELECT mark_followed(:server, :uris);
