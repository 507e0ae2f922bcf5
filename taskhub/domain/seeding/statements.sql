-- A made-up history, for trials: thousands of tasks in one statement. The form: taskhub/store/statements.py.

-- read fresh: real_client(tenant bigint, made_up text) -> str | None
-- The name of a client that is not made up (names that begin with `made_up`) and has tasks other than those of the
-- demo.
SELECT c.name
FROM auth_context AS c
WHERE c.tenant_id = :tenant AND c.name NOT LIKE :made_up || '%'
  AND EXISTS (SELECT FROM task AS t WHERE t.context_id = c.id AND coalesce(t.idempotency_key, '') NOT LIKE 'seed-%')
ORDER BY c.id LIMIT 1;

-- read fresh: newest_made_up(tenant bigint, made_up text) -> datetime | None
SELECT max(n.created_at)
FROM auth_context AS c
CROSS JOIN LATERAL (
    SELECT t.created_at FROM task AS t WHERE t.context_id = c.id ORDER BY t.id DESC LIMIT 1
) AS n
WHERE c.tenant_id = :tenant AND c.name LIKE :made_up || '%';

-- write: seed_tasks(tenant bigint, contexts bigint[], tools bigint[], words text[], start timestamptz, step float8,
--     until timestamptz, count int, live boolean) -> tuple[int, int]
-- Returns the first and the last id. A client or tool that is in `contexts` or `tools` twice is used twice as often. No
-- task lives longer than some minutes, because ids and times of events must grow together (`_SKEW` in
-- domain/audit/reads.py).
WITH drawn AS MATERIALIZED (
    SELECT nextval(pg_get_serial_sequence('task', 'id')) AS id, n,
           :start + make_interval(secs => :step * (n - 1)) AS born, random() AS how, random() AS ask,
           0.05 + 40 * random() ^ 4 AS ran_for, 5 + 300 * random() AS waited_for,
           (:contexts)[1 + floor(random() * cardinality(:contexts))::int] AS context_id,
           (:tools)[1 + floor(random() * cardinality(:tools))::int] AS tool_id,
           (SELECT string_agg((:words)[1 + floor(random() * cardinality(:words))::int], ' ')
            FROM generate_series(1, 5 + n % 9)) AS wish,
           (SELECT string_agg((:words)[1 + floor(random() * cardinality(:words))::int], ' ')
            FROM generate_series(1, 9 + n % 23)) AS found
    FROM generate_series(1, :count) AS n
),
ways AS (
    SELECT d.*,
           CASE WHEN :live THEN (ARRAY['queued', 'working', 'input_required'])[1 + d.n % 3]
                WHEN d.how < 0.95 THEN 'finished' WHEN d.how < 0.975 THEN 'faulted' ELSE 'cancelled' END AS state,
           CASE WHEN :live AND d.n % 3 <> 2 THEN ''
                WHEN d.ask < CASE WHEN :live THEN 0.5 ELSE 0.02 END THEN 'approval'
                WHEN d.ask < CASE WHEN :live THEN 1 ELSE 0.04 END THEN 'elicitation' ELSE '' END AS asked
    FROM drawn AS d
),
lives AS (
    SELECT w.*, w.state = 'finished' AND w.how >= 0.9 AS is_error,
           least(:until, w.born + make_interval(
               secs => w.ran_for + CASE WHEN w.asked = '' THEN 0 ELSE w.waited_for END)) AS over,
           json_build_object('text', w.wish, 'ticket', 'T-' || w.id, 'priority', 1 + w.n % 5) AS arguments
    FROM ways AS w
),
made AS (
    INSERT INTO task (id, public_id, tenant_id, context_id, tool_id, tool_name, revision, arguments,
                      arguments_digest, tool_digest, state, message, result, error, is_error, lease_epoch, lease_until,
                      worker, runnable_at, created_at, updated_at, ended_at, cancel_requested_at, ttl_ms, expires_at,
                      handle, idempotency_key, client_info, client_capabilities, version)
    SELECT l.id, replace(gen_random_uuid()::text, '-', ''), :tenant, l.context_id, l.tool_id, o.exposed_name,
           CASE WHEN l.context_id % 3 = 0 THEN '2025-11-25' ELSE '2026-07-28' END, l.arguments,
           sha256(convert_to(l.arguments::text, 'UTF8')), decode(nullif(o.digest, ''), 'hex'), l.state,
           CASE WHEN l.state IN ('queued', 'working') THEN ''
                WHEN l.asked = 'approval' AND l.state = 'input_required' THEN th_words('waiting_approval', '0', '1')
                WHEN l.state = 'input_required' THEN th_words('waiting_operator')
                WHEN l.state = 'cancelled' THEN th_words('cancelled_unstarted')
                WHEN l.state = 'faulted' THEN 'The server did not understand: ' || left(l.found, 60)
                ELSE left(l.found, 80) END,
           CASE WHEN l.state = 'finished' THEN jsonb_strip_nulls(jsonb_build_object(
               'content', jsonb_build_array(jsonb_build_object('type', 'text', 'text', l.found)),
               'isError', CASE WHEN l.is_error THEN true END))::text END,
           CASE WHEN l.state = 'faulted' THEN json_build_object(
               'code', -32602, 'message', 'The server did not understand: ' || left(l.found, 60))::text END,
           l.is_error,
           CASE WHEN l.state IN ('queued', 'cancelled', 'input_required') THEN 0 ELSE 1 END
           + CASE WHEN l.asked = 'elicitation' THEN 1 ELSE 0 END,
           CASE WHEN l.state = 'working' THEN :until + interval '10 minutes' END,
           CASE WHEN l.state IN ('queued', 'cancelled', 'input_required') AND l.asked <> 'elicitation' THEN ''
                ELSE 'made-up-' || l.id % 3 END,
           l.born, l.born AS runnable_at, l.over, CASE WHEN NOT :live THEN l.over END,
           CASE WHEN l.state = 'cancelled' THEN l.over END,
           86400000, greatest(l.born + interval '1 day', l.over + interval '1 hour'), l.n % 4 <> 0,
           CASE WHEN l.n % 10 = 0 THEN 'made-up-' || l.id END,
           jsonb_build_object('name', c.name, 'version', '1.' || l.context_id % 4),
           '{"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}}',
           CASE l.state WHEN 'queued' THEN 1 WHEN 'cancelled' THEN 2 WHEN 'working' THEN 2
                        WHEN 'input_required' THEN 1 ELSE 3 END
           + CASE l.asked WHEN '' THEN 0
                          WHEN 'approval' THEN CASE WHEN l.state IN ('cancelled', 'input_required') THEN 0 ELSE 1 END
                          ELSE CASE WHEN l.state IN ('cancelled', 'input_required') THEN 2 ELSE 3 END END
    FROM lives AS l JOIN tool AS o ON o.id = l.tool_id JOIN auth_context AS c ON c.id = l.context_id
    ORDER BY l.id
    RETURNING id, tenant_id
),
questions AS (
    INSERT INTO question (task_id, tenant_id, key, upstream_key, kind, params, audience, state, response, opened_at,
                          closed_at, due_at, definition, definition_digest, called_at)
    SELECT l.id, :tenant, l.asked, CASE WHEN l.asked = 'elicitation' THEN 'q' ELSE '' END, l.asked AS kind,
           CASE WHEN l.asked = 'approval'
                THEN json_build_object('tool', o.exposed_name, 'server', s.name, 'rule', '{}'::json)
                ELSE json_build_object(
                    'message', 'Which one: ' || left(l.wish, 40) || '?', 'requestedSchema',
                    '{"type": "object", "properties": {"which": {"type": "string"}}, "required": ["which"]}'::json)
                END,
           'operator',
           CASE l.state WHEN 'input_required' THEN 'open' WHEN 'cancelled' THEN 'superseded' ELSE 'answered' END,
           CASE WHEN l.state NOT IN ('input_required', 'cancelled') THEN
               CASE WHEN l.asked = 'approval' THEN '{"approved": true}'
                    ELSE '{"action": "accept", "content": {"which": "the first"}}' END END,
           l.born, CASE WHEN l.state <> 'input_required' THEN l.born + (l.over - l.born) / 2 END,
           l.born + interval '1 day', CASE WHEN l.asked = 'approval' THEN o.definition END,
           CASE WHEN l.asked = 'approval' THEN decode(nullif(o.digest, ''), 'hex') END,
           CASE WHEN l.asked = 'approval' THEN l.born END
    FROM lives AS l JOIN tool AS o ON o.id = l.tool_id JOIN server AS s ON s.id = o.server_id
    WHERE l.asked <> '' ORDER BY l.id
    RETURNING id
)
SELECT min(m.id), max(m.id) FROM made AS m, (SELECT count(*) FROM questions) AS asked;

-- The tasks between two ids: `asked` is the kind of their question, `ran` whether a worker ran them to the end, and
-- `lasts` how long they took, from which all times are calculated.
/* fragment: lived
(SELECT t.*, coalesce(q.kind, '') AS asked, q.id AS question_id, q.definition_digest, q.state AS answer,
        t.state IN ('finished', 'faulted') AS ran, t.updated_at - t.created_at AS lasts
 FROM task AS t LEFT JOIN question AS q ON q.task_id = t.id
 WHERE t.id BETWEEN :low AND :high)
*/

-- write: seed_attempts(low bigint, high bigint) -> None
INSERT INTO attempt (task_id, number, worker, started_at, ended_at, outcome)
SELECT t.id, a.number, t.worker, t.created_at + t.lasts * a.taken, t.created_at + t.lasts * a.given, a.outcome
FROM {lived} AS t
CROSS JOIN LATERAL (VALUES
    (t.asked = 'elicitation', 1, 0.05, 0.1, 'asked'),
    (t.ran AND t.asked = 'elicitation', 2, 0.55, 1, t.state),
    (t.ran AND t.asked <> 'elicitation', 1, CASE WHEN t.asked = '' THEN 0.05 ELSE 0.55 END, 1, t.state),
    (t.state = 'working', 1, 0.05, NULL, '')
) AS a (happened, number, taken, given, outcome)
WHERE a.happened ORDER BY t.id, a.number;

-- write: seed_people(tenant bigint, since timestamptz) -> None
-- Makes the rights of the tenant's people older than its history, so that they may decide on the calls in it.
UPDATE membership SET granted_at = least(granted_at, :since) WHERE tenant_id = :tenant;

-- write: seed_decisions(low bigint, high bigint) -> None
INSERT INTO decision (question_id, actor, verdict, arguments_digest, door, at)
SELECT t.question_id, 'made-up', CASE WHEN t.asked = 'approval' THEN 'approve' ELSE 'accept' END, t.arguments_digest,
       'web', t.created_at + t.lasts / 2
FROM {lived} AS t WHERE t.answer = 'answered' ORDER BY t.id;

-- write: seed_lines(low bigint, high bigint) -> None
INSERT INTO task_log (task_id, level, text, progress, total, at)
SELECT t.id, CASE WHEN k = 3 THEN 'info' ELSE 'progress' END, 'Step ' || k || ': ' || left(t.message, 60),
       CASE WHEN k < 3 THEN k END, CASE WHEN k < 3 THEN 3 END, t.created_at + t.lasts * (0.6 + 0.1 * k)
FROM {lived} AS t CROSS JOIN generate_series(1, 3) AS k
WHERE t.ran AND t.id % 3 = 0 ORDER BY t.id, k;

-- write: seed_events(low bigint, high bigint) -> int
-- The events that `task_record` and `answer` would have recorded, at the times of the made-up changes.
WITH stored AS (
    INSERT INTO event (tenant_id, task_id, task_version, action, actor, door, context_id, target, before, after, at)
    SELECT t.tenant_id, t.id, e.version, e.action,
           CASE e.door WHEN 'client' THEN c.name WHEN 'worker' THEN t.worker ELSE 'made-up' END, e.door, t.context_id,
           t.tool_name, CASE WHEN e.before <> '' THEN jsonb_build_object('state', e.before) END,
           CASE WHEN e.epoch IS NULL THEN jsonb_build_object('key', t.asked, 'kind', t.asked)
                    || CASE WHEN e.action = 'question.asked' THEN '{"audience": "operator", "quorum": 1}'::jsonb
                            ELSE '{}' END
                ELSE th_shown(e.state, CASE WHEN e.version = t.version THEN t.message ELSE '' END, e.epoch) END
           || CASE WHEN e.before = '' AND e.action <> 'question.asked'
                   THEN th_digests(t.arguments_digest, coalesce(t.definition_digest, t.tool_digest)) ELSE '{}' END,
           t.created_at + t.lasts * e.part
    FROM {lived} AS t
    JOIN auth_context AS c ON c.id = t.context_id
    CROSS JOIN LATERAL (VALUES
        (true, 1, 'task.created', '', CASE WHEN t.asked = 'approval' THEN 'input_required' ELSE 'queued' END, 0, 0,
         'client'),
        (t.asked = 'approval', NULL, 'question.asked', '', '', NULL, 0, 'client'),
        (t.asked = 'elicitation' OR t.asked = '' AND (t.ran OR t.state = 'working'), 2, 'task.claimed', 'queued',
         'working', 1, 0.05, 'worker'),
        (t.asked = 'elicitation', 3, 'task.asked', 'working', 'input_required', 1, 0.1, 'worker'),
        (t.asked = 'elicitation', NULL, 'question.asked', '', '', NULL, 0.1, 'worker'),
        (t.answer = 'answered', NULL, CASE WHEN t.asked = 'approval' THEN 'question.approve' ELSE 'question.accept' END,
         '', '', NULL, 0.5, 'web'),
        (t.answer = 'answered', CASE WHEN t.asked = 'approval' THEN 2 ELSE 4 END, 'task.answered', 'input_required',
         'queued', CASE WHEN t.asked = 'approval' THEN 0 ELSE 1 END, 0.5, 'web'),
        (t.answer = 'answered', t.version - 1, 'task.claimed', 'queued', 'working', t.lease_epoch, 0.55, 'worker'),
        (t.ran, t.version, 'task.' || t.state, 'working', t.state, t.lease_epoch, 1, 'worker'),
        (t.state = 'cancelled', t.version, 'task.cancelled',
         CASE WHEN t.asked = '' THEN 'queued' ELSE 'input_required' END, 'cancelled', t.lease_epoch, 1, 'client')
    ) AS e (happened, version, action, before, state, epoch, part, door)
    WHERE e.happened
    ORDER BY t.created_at + t.lasts * e.part, t.id, e.part, e.version NULLS FIRST
    RETURNING id
)
SELECT count(*) FROM stored;
