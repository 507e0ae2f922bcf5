-- Statements of the catalogue. Format of this file: taskhub/store/statements.py.

-- write: keep_versions(changed bigint[], listed timestamptz, seen timestamptz, most int) -> None
-- Makes the versions of the tools `changed`, whose rows are locked, agree with the definitions in these rows. `listed`:
-- the time of this listing; `seen`: the time of the previous listing. If a tool can be used, its definition becomes a
-- new version, or its version from before is the present one again. The version that was present until now ends. Of
-- older versions, the newest `most` and the confirmed one are kept. Each part of the statement sees the versions as
-- they were before it, and no version is changed by two parts.
WITH offered AS MATERIALIZED (
    SELECT o.id, o.digest, o.definition, o.confirmed_digest, o.gone_at IS NULL AND o.rejected = '' AS usable,
           coalesce((SELECT max(v.number) FROM tool_version AS v WHERE v.tool_id = o.id), 0) AS newest,
           n.id IS NULL AS new
    FROM tool AS o
    LEFT JOIN tool_version AS n ON n.tool_id = o.id AND n.digest = o.digest
    WHERE o.id = any(:changed)
), ended AS (
    UPDATE tool_version AS v SET last_seen_at = :seen FROM offered AS o
    WHERE v.tool_id = o.id AND v.last_seen_at IS NULL AND (NOT o.usable OR v.digest <> o.digest)
), come_back AS (
    UPDATE tool_version AS v SET last_seen_at = NULL FROM offered AS o
    WHERE v.tool_id = o.id AND v.last_seen_at IS NOT NULL AND o.usable AND v.digest = o.digest
), dropped AS (
    DELETE FROM tool_version AS v USING offered AS o
    WHERE v.tool_id = o.id AND v.last_seen_at IS NOT NULL AND v.digest NOT IN (o.digest, o.confirmed_digest)
      AND v.number <= o.newest + (o.usable AND o.new)::int - :most
)
INSERT INTO tool_version (tool_id, number, digest, definition, first_seen_at)
SELECT o.id, o.newest + 1, o.digest, o.definition, :listed FROM offered AS o WHERE o.usable AND o.new;
