-- Tasks on pages: the list with its tabs, and the numbers of the overview. The format of this file:
-- taskhub/store/statements.py.

-- Pages of tasks

-- read fresh: newest_task_id() -> int
SELECT coalesce(max(t.id), 0) FROM task AS t;

-- read fresh: newest_task_up_to(tenant bigint, above bigint) -> int | None
SELECT t.id FROM task AS t WHERE t.tenant_id = :tenant AND t.id <= :above ORDER BY t.id DESC LIMIT 1;

-- `above` is a value, not a subquery, so that the planner knows how few tasks the condition leaves.
/* fragment: narrowed
(:tool IS NULL OR t.tool_name = :tool)
    AND (:context IS NULL OR t.context_id = :context)
    AND (:since IS NULL OR CASE WHEN :by_end THEN t.ended_at ELSE t.created_at END >= :since)
    AND (:until IS NULL OR CASE WHEN :by_end THEN t.ended_at ELSE t.created_at END < :until)
*/
/* fragment: for_people
EXISTS (SELECT FROM question AS q WHERE q.task_id = t.id AND q.closed_at IS NULL AND q.audience <> 'client')
*/
/* fragment: unruled
EXISTS (SELECT FROM question AS q WHERE q.task_id = t.id AND q.closed_at IS NULL AND q.kind = 'outcome')
*/
-- The result or error of a plain call whose caller has left. For tasks with a handle only `result_read` could tell
-- whether it was fetched, and no index can use that.
/* fragment: not_fetched
(t.left_at IS NOT NULL AND t.state IN ('finished', 'faulted'))
*/
-- A plain call that goes on although its caller has left.
/* fragment: abandoned
(t.left_at IS NOT NULL AND t.state IN ('queued', 'working', 'input_required'))
*/
/* fragment: in_tab
(:state IS NULL OR t.state = :state)
    AND (:error IS NULL OR t.is_error = :error)
    AND (:ended_as IS NULL OR t.ended_as = :ended_as)
    AND (:errors IS NULL OR ((t.state = 'faulted' OR t.is_error) AND t.ended_as = '') = :errors)
    AND (:people IS NULL OR {for_people} = :people)
    AND (:unruled IS NULL OR {unruled} = :unruled)
    AND (:unfetched IS NULL OR {not_fetched} = :unfetched)
    AND (:abandoned IS NULL OR {abandoned} = :abandoned)
*/
-- Every word is somewhere in what a row of the list shows, or is the beginning of the id. Arguments are searched as the
-- row has them, `name: value`, with or without the blank.
/* fragment: has_text
(SELECT bool_and(position(lower(w.word) IN shown.text) > 0 OR starts_with(t.public_id, w.word)
                 OR coalesce(t.trace ->> 'claudecode/toolUseId' = w.word, false))
 FROM unnest(:words) AS w (word), lower(concat_ws(
     ' ', t.tool_name, t.message, (SELECT n.name FROM auth_context AS n WHERE n.id = t.context_id),
     replace(replace(replace(replace(t.arguments::text, '\"', ''), '": ', '":'), '"', ''), '\\', '\'))) AS shown (text))
*/
/* fragment: countable
t.tenant_id = :tenant AND (:above IS NULL OR t.id > :above) AND {narrowed}
*/
/* fragment: listed
{countable}
    AND (:words IS NULL OR {has_text})
*/

/* fragment: task_row
t.id, t.public_id, t.tool_name, left(t.arguments::text, :given) AS given,
c.name AS client, t.context_id,
t.state, t.is_error, t.ended_as, t.message, t.progress, t.total, t.cancel_requested_at, t.created_at, t.updated_at,
t.ended_at, t.last_polled_at, t.left_at,
CASE WHEN t.state <> 'input_required' THEN ''
     WHEN {unruled} THEN 'unknown'
     WHEN {for_people} THEN 'people'
     ELSE 'client' END AS waiting_for, t.decided -> 'bypass' AS passed
*/

-- read fresh: task_page(tenant bigint, above bigint, tool text, context bigint,
--     since timestamptz, until timestamptz, by_end boolean,
--     words text[], state text, error boolean, errors boolean, ended_as text, people boolean, unruled boolean,
--     unfetched boolean, abandoned boolean,
--     before bigint, given int, most int) -> list[TaskRow]
SELECT {task_row}
FROM task AS t JOIN auth_context AS c ON c.id = t.context_id
WHERE {listed}
  AND {in_tab}
  AND (:before IS NULL OR t.id < :before)
ORDER BY t.id DESC
LIMIT :most;

-- read fresh: found_tasks(tenant bigint, above bigint, tool text, context bigint,
--     since timestamptz, until timestamptz, by_end boolean,
--     words text[], state text, error boolean, errors boolean, ended_as text, people boolean, unruled boolean,
--     unfetched boolean, abandoned boolean,
--     most int) -> _Found
-- The number of tasks in each tab, and the ids of the first tasks of the selected one, with one search for the text.
WITH hit AS MATERIALIZED (
    SELECT t.id, t.state, t.is_error, t.ended_as, {in_tab} AS chosen FROM task AS t
    WHERE t.tenant_id = :tenant AND t.id > :above AND {narrowed} AND {has_text}
)
SELECT count(*) FILTER (WHERE h.state = 'queued') AS queued,
       count(*) FILTER (WHERE h.state = 'working') AS working,
       count(*) FILTER (WHERE h.state = 'input_required') AS input_required,
       count(*) FILTER (WHERE h.state = 'finished' AND NOT h.is_error) AS finished,
       count(*) FILTER (WHERE h.state = 'finished' AND h.is_error AND h.ended_as = '') AS error,
       count(*) FILTER (WHERE h.state = 'faulted' AND h.ended_as = '') AS faulted,
       count(*) FILTER (WHERE h.ended_as = 'rejected') AS rejected,
       count(*) FILTER (WHERE h.ended_as = 'expired') AS expired,
       count(*) FILTER (WHERE h.ended_as = 'denied') AS denied,
       count(*) FILTER (WHERE h.state = 'cancelled') AS cancelled,
       count(*) FILTER (WHERE h.chosen) AS chosen,
       array(SELECT i.id FROM hit AS i WHERE i.chosen ORDER BY i.id DESC LIMIT :most) AS ids
FROM hit AS h;

-- read: listed_tasks(ids bigint[], given int) -> list[TaskRow]
SELECT {task_row}
FROM task AS t JOIN auth_context AS c ON c.id = t.context_id
WHERE t.id = any(:ids) ORDER BY t.id DESC;

-- read fresh: tab_counts(tenant bigint, above bigint, tool text, context bigint,
--     since timestamptz, until timestamptz, by_end boolean,
--     most int) -> list[tuple[str, int]]
-- ORDER BY makes the planner use an index for each part. Without it, reading the table until LIMIT is reached looks as
-- cheap.
SELECT 'queued', count(*) FROM (
    SELECT FROM task AS t WHERE {countable} AND t.state = 'queued' ORDER BY t.id DESC LIMIT :most
) AS counted
UNION ALL
SELECT 'working', count(*) FROM (
    SELECT FROM task AS t WHERE {countable} AND t.state = 'working' ORDER BY t.id DESC LIMIT :most
) AS counted
UNION ALL
SELECT 'input_required', count(*) FROM (
    SELECT FROM task AS t WHERE {countable} AND t.state = 'input_required' ORDER BY t.id DESC LIMIT :most
) AS counted
UNION ALL
SELECT 'finished', count(*) FROM (
    SELECT FROM task AS t WHERE {countable} AND t.state = 'finished' AND NOT t.is_error ORDER BY t.id DESC LIMIT :most
) AS counted
UNION ALL
SELECT 'error', count(*) FROM (
    SELECT FROM task AS t WHERE {countable} AND t.state = 'finished' AND t.is_error AND t.ended_as = ''
    ORDER BY t.id DESC LIMIT :most
) AS counted
UNION ALL
SELECT 'faulted', count(*) FROM (
    SELECT FROM task AS t WHERE {countable} AND t.state = 'faulted' AND t.ended_as = ''
    ORDER BY t.id DESC LIMIT :most
) AS counted
UNION ALL
SELECT 'rejected', count(*) FROM (
    SELECT FROM task AS t WHERE {countable} AND t.ended_as = 'rejected' ORDER BY t.id DESC LIMIT :most
) AS counted
UNION ALL
SELECT 'expired', count(*) FROM (
    SELECT FROM task AS t WHERE {countable} AND t.ended_as = 'expired' ORDER BY t.id DESC LIMIT :most
) AS counted
UNION ALL
SELECT 'denied', count(*) FROM (
    SELECT FROM task AS t WHERE {countable} AND t.ended_as = 'denied' ORDER BY t.id DESC LIMIT :most
) AS counted
UNION ALL
SELECT 'cancelled', count(*) FROM (
    SELECT FROM task AS t WHERE {countable} AND t.state = 'cancelled' ORDER BY t.id DESC LIMIT :most
) AS counted;

-- read fresh: waiting_count(tenant bigint, above bigint, tool text, context bigint,
--     since timestamptz, until timestamptz, by_end boolean,
--     people boolean, most int) -> int
SELECT count(*) FROM (
    SELECT FROM task AS t
    WHERE {countable} AND t.state = 'input_required' AND {for_people} = :people ORDER BY t.id DESC LIMIT :most
) AS counted;

-- read fresh: unruled_count(tenant bigint, above bigint, tool text, context bigint,
--     since timestamptz, until timestamptz, by_end boolean,
--     most int) -> int
SELECT count(*) FROM (
    SELECT FROM task AS t
    WHERE {countable} AND t.state = 'input_required' AND {unruled} ORDER BY t.id DESC LIMIT :most
) AS counted;

-- read fresh: unfetched_count(tenant bigint, above bigint, tool text, context bigint,
--     since timestamptz, until timestamptz, by_end boolean,
--     most int) -> int
SELECT count(*) FROM (
    SELECT FROM task AS t WHERE {countable} AND {not_fetched} ORDER BY t.id DESC LIMIT :most
) AS counted;

-- read fresh: abandoned_count(tenant bigint, above bigint, tool text, context bigint,
--     since timestamptz, until timestamptz, by_end boolean, most int) -> int
SELECT count(*) FROM (
    SELECT FROM task AS t WHERE {countable} AND {abandoned} ORDER BY t.id DESC LIMIT :most
) AS counted;

-- The numbers of the overview

-- read fresh: numbers(tenant bigint, most int) -> Numbers
-- Every count is of live tasks, or stops at `most`, so it never grows with history.
WITH waiting AS (
    SELECT t.id, bool_or(q.audience <> 'client') AS people, bool_or(q.kind = 'outcome') AS unruled
    FROM task AS t JOIN question AS q ON q.task_id = t.id AND q.closed_at IS NULL
    WHERE t.tenant_id = :tenant AND t.state = 'input_required' GROUP BY t.id
)
SELECT (SELECT count(*) FROM task AS t WHERE t.tenant_id = :tenant AND t.state = 'working') AS working,
       (SELECT count(*) FROM waiting WHERE people) AS waiting_people,
       (SELECT count(*) FROM waiting WHERE NOT people) AS waiting_client,
       (SELECT count(*) FROM waiting WHERE unruled) AS unruled,
       (SELECT count(*) FROM (
           SELECT FROM task AS t WHERE t.tenant_id = :tenant AND {not_fetched} ORDER BY t.id DESC LIMIT :most
       ) AS counted) AS unfetched,
       (SELECT count(*) FROM task AS t WHERE t.tenant_id = :tenant AND {abandoned}) AS abandoned,
       (SELECT count(*) FROM worker AS w WHERE th_alive(w)) AS live_workers,
       (SELECT count(*) FROM server AS s WHERE s.tenant_id = :tenant AND s.enabled) AS servers,
       (SELECT count(*) FROM tool AS o JOIN server AS s ON s.id = o.server_id
        WHERE s.tenant_id = :tenant AND s.enabled AND o.enabled AND o.gone_at IS NULL AND o.rejected = ''
          AND NOT th_unconfirmed(s, o)) AS tools,
       (SELECT count(*) FROM access_token AS a JOIN auth_context AS c ON c.id = a.context_id
        WHERE c.tenant_id = :tenant AND a.revoked_at IS NULL
          AND (a.expires_at IS NULL OR a.expires_at > now())) AS tokens,
       (SELECT count(*) FROM consent AS k JOIN application AS p ON p.id = k.application_id
        WHERE p.tenant_id = :tenant AND p.blocked_at IS NULL) AS signed_in,
       (SELECT t.id FROM task AS t WHERE t.tenant_id = :tenant ORDER BY t.id DESC LIMIT 1) IS NOT NULL AS ever;

-- read fresh: ended(tenant bigint, since timestamptz, until timestamptz) -> list[Ended]
WITH recent AS (
    SELECT t.tool_name, t.state, t.ended_at, t.message, t.public_id, t.ended_as,
           (t.state = 'faulted' OR t.is_error) AND t.ended_as = '' AS bad
    FROM task AS t
    WHERE t.tenant_id = :tenant AND t.ended_at >= :since AND t.ended_at < :until
)
SELECT date_trunc('hour', r.ended_at, 'UTC') AS start, r.tool_name,
       count(*) FILTER (WHERE r.state = 'finished' AND NOT r.bad AND r.ended_as = '') AS finished,
       count(*) FILTER (WHERE r.state = 'finished' AND r.bad) AS error,
       count(*) FILTER (WHERE r.state = 'faulted' AND r.bad) AS faulted,
       count(*) FILTER (WHERE r.ended_as = 'rejected') AS rejected,
       count(*) FILTER (WHERE r.ended_as = 'expired') AS expired,
       count(*) FILTER (WHERE r.ended_as = 'denied') AS denied,
       count(*) FILTER (WHERE r.state = 'cancelled') AS cancelled,
       max(r.ended_at) FILTER (WHERE r.bad) AS last_at,
       (array_agg(r.message ORDER BY r.ended_at DESC) FILTER (WHERE r.bad))[1] AS last_message,
       (array_agg(r.public_id ORDER BY r.ended_at DESC) FILTER (WHERE r.bad))[1] AS last_public_id
FROM recent AS r GROUP BY 1, 2;
