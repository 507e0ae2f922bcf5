-- Statements of the catalogue. Format of this file: taskhub/store/statements.py.

-- write: keep_versions(changed bigint[], listed timestamptz, seen timestamptz, most int) -> None
-- Makes the versions of these tools, whose rows are locked, agree with the rows. `listed` is the moment of this
-- listing, `seen` that of the listing before. A usable definition in a row becomes a new version, or the version that
-- it had before; the version that was listed until now ends. Of older versions, only the newest and the confirmed one
-- are kept. All parts below see the versions as they were before this statement, and no two parts change the same one.
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
