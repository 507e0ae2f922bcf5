-- Statements of sessions, streams and requests to clients. Format of this file: taskhub/store/statements.py.

-- read: live_sessions(public_ids text[], contexts bigint[], idle_days int) -> list[tuple[int, Session]]
SELECT w.place, s.id, s.public_id, s.context_id, s.version, s.client_info, s.client_capabilities, s.log_level,
       s.profile, s.resources
FROM unnest(:public_ids, :contexts) WITH ORDINALITY AS w (public_id, context_id, place)
CROSS JOIN LATERAL (
    SELECT * FROM session AS x
    WHERE x.public_id = w.public_id AND x.context_id = w.context_id AND x.ended_at IS NULL
      AND x.seen_at > clock_timestamp() - make_interval(days => :idle_days)
    LIMIT 1
) AS s;

-- write: start_session(public_id text, tenant bigint, context bigint, version text, client_info jsonb,
--     capabilities jsonb, most int) -> None
SELECT start_session(:public_id, :tenant, :context, :version, :client_info, :capabilities, :most);

-- write: end_session(session bigint, channel text, hint text) -> list[int]
-- Detaches the session's streams at once, before the processes that serve them notice. Returns the ids of the tasks
-- with open requests on these streams, so that other streams of these tasks can get the requests at once.
WITH ended AS (
    -- RETURNING sends the hint in any case; a SELECT in WITH would run only as far as its rows are read.
    UPDATE session SET ended_at = clock_timestamp() WHERE id = :session AND ended_at IS NULL
    RETURNING id, pg_notify(:channel, :hint)
),
left_behind AS (
    UPDATE stream AS s SET attached = false FROM ended AS e WHERE s.session_id = e.id AND s.attached RETURNING s.id
)
SELECT DISTINCT o.task_id
FROM left_behind AS l JOIN outbound AS o ON o.stream_id = l.id
WHERE o.state = 'open';

-- write: set_log_level(session bigint, level text) -> None
UPDATE session SET log_level = :level WHERE id = :session;

-- write: follow_resource(session bigint, uri text, most int, channel text, hint text) -> rowcount
WITH changed AS (
    UPDATE session SET resources = CASE WHEN :uri = any(resources) THEN resources ELSE resources || :uri END
    WHERE id = :session AND (:uri = any(resources) OR cardinality(resources) < :most)
    RETURNING id
)
SELECT pg_notify(:channel, :hint) FROM changed;

-- write: unfollow_resource(session bigint, uri text, channel text, hint text) -> None
WITH changed AS (
    UPDATE session SET resources = array_remove(resources, :uri)
    WHERE id = :session AND :uri = any(resources)
    RETURNING id
)
SELECT pg_notify(:channel, :hint) FROM changed;

-- write: mark_profile(session bigint, profile text) -> None
UPDATE session SET profile = :profile WHERE id = :session AND profile <> :profile;

-- write: store_seen(sessions bigint[], seen float8[]) -> None
UPDATE session AS s SET seen_at = greatest(s.seen_at, to_timestamp(p.at))
FROM unnest(:sessions, :seen) AS p (id, at) WHERE s.id = p.id;

-- write: purge_sessions(idle_days int, most int) -> rowcount
DELETE FROM session WHERE id = any(array(
    SELECT s.id FROM session AS s
    WHERE s.seen_at < statement_timestamp() - make_interval(days => :idle_days)
      AND NOT EXISTS (SELECT FROM task AS t WHERE t.session_id = s.id)
    ORDER BY s.seen_at LIMIT :most FOR UPDATE SKIP LOCKED
));


-- Streams

-- Whether another stream than `s` has reported on the task of `s`.
/* fragment: told
(EXISTS (SELECT FROM stream AS o
         WHERE o.session_id = s.session_id AND o.kind = 'listen' AND o.id <> s.id AND th_served(o))
 OR EXISTS (SELECT FROM stream AS o WHERE o.task_id = s.task_id AND o.id <> s.id)) AS told
*/

-- write: open_stream(session bigint, kind text, task bigint, request_id text, progress_token text) -> Place
INSERT INTO stream AS s (session_id, kind, task_id, request_id, progress_token)
VALUES (:session, :kind, :task, :request_id, :progress_token)
RETURNING s.id, 1 AS attach, s.kind, s.task_id, s.request_id, s.progress_token, s.opened_at AS since, {told};

-- write: attach_stream(stream bigint, session bigint) -> Place | None
WITH old AS (
    SELECT x.id, x.seen_at FROM stream AS x
    WHERE x.id = :stream AND x.session_id = :session AND NOT x.cancelled
    FOR UPDATE
)
UPDATE stream AS s
SET attach = s.attach + 1, attached = true, seen_at = clock_timestamp(), closed_at = NULL
FROM old WHERE s.id = old.id
RETURNING s.id, s.attach, s.kind, s.task_id, s.request_id, s.progress_token, old.seen_at AS since, {told};

-- write: leave_stream(stream bigint, attach int, closed boolean) -> list[int]
UPDATE stream SET attached = false, closed_at = CASE WHEN :closed THEN clock_timestamp() END
WHERE id = :stream AND attach = :attach
RETURNING coalesce(task_id, 0);

-- write: cancel_stream(session bigint, request_id text) -> _Cancelled | None
UPDATE stream AS s SET cancelled = true
WHERE s.session_id = :session AND s.request_id = :request_id AND s.closed_at IS NULL
RETURNING s.kind,
    (SELECT t.id FROM task AS t
     WHERE t.id = s.task_id AND (NOT t.handle OR t.client_task_id IS NOT NULL)) AS task_id,
    (SELECT t.client_task_id IS NOT NULL FROM task AS t WHERE t.id = s.task_id) AS own_id,
    extract(EPOCH FROM clock_timestamp() - s.opened_at)::float8 AS waited;

-- read: task_of_request(session bigint, request_id text) -> _Cancelled | None
SELECT 'call' AS kind, t.id AS task_id, t.client_task_id IS NOT NULL AS own_id,
    extract(EPOCH FROM clock_timestamp() - t.created_at)::float8 AS waited
FROM task AS t
WHERE t.session_id = :session AND t.request_id = :request_id AND t.ended_at IS NULL
  AND (NOT t.handle OR t.client_task_id IS NOT NULL);

-- read: earlier_wait(session bigint, task bigint) -> EarlierWait | None
SELECT s.kind, s.closed_at IS NULL AND s.attached AS served, s.closed_at IS NOT NULL AS answered,
    extract(EPOCH FROM clock_timestamp() - s.opened_at)::float8 AS seconds
FROM stream AS s
WHERE s.session_id = :session AND s.task_id = :task AND s.kind IN ('call', 'wait') AND NOT s.cancelled
ORDER BY s.id DESC LIMIT 1;

-- write: purge_streams(unseen_seconds float8, most int) -> rowcount
DELETE FROM stream WHERE id = any(array(
    SELECT s.id FROM stream AS s
    WHERE s.seen_at < statement_timestamp() - make_interval(secs => :unseen_seconds)
    ORDER BY s.seen_at LIMIT :most FOR UPDATE SKIP LOCKED
));


-- Requests to clients

-- read: asked_of(outbound bigint, session bigint) -> OutboundRequest | None
-- Two columns are named `id` and two `page`, one of the request and one of its question: columns are matched by
-- position, not by name. `by_tool` is false: a question that is sent as a request is not answered with the hub's tool.
SELECT o.id, o.task_id, o.method, o.params, o.state = 'open' AND q.state = 'open' AS open,
       q.key, q.kind, q.params, q.audience, q."group", q.quorum, 0 AS approvals, q.id, -- as above -- noqa: AL08
       false AS page, false AS by_tool, false AS offered, o.page -- as above -- noqa: AL08
FROM outbound AS o
JOIN question AS q ON q.id = o.question_id
JOIN stream AS s ON s.id = o.stream_id
WHERE o.id = :outbound AND s.session_id = :session;

-- write: put_questions(task bigint, questions bigint[], pages boolean[], methods text[], params text[]) -> None
INSERT INTO outbound (task_id, question_id, page, method, params)
SELECT :task, q.id, q.page, q.method, q.params::json
FROM unnest(:questions, :pages, :methods, :params) AS q (id, page, method, params)
ON CONFLICT (question_id, page, step) DO NOTHING;

-- write: deliver(stream bigint, attach int, first boolean, after bigint, methods text[]) -> list[_Delivered]
SELECT r_id AS id, r_method AS method, r_params AS params FROM deliver(:stream, :attach, :first, :after, :methods);

-- write: withdraw(stream bigint) -> list[Withdrawn]
UPDATE outbound AS o SET state = 'withdrawn', closed_at = clock_timestamp()
FROM question AS q
WHERE o.stream_id = :stream AND o.state = 'open' AND q.id = o.question_id AND q.state <> 'open'
RETURNING o.id, o.method, o.params::text AS params_json, o.sent_at IS NOT NULL AS delivered, o.task_id, o.page;

-- write: close_request(outbound bigint) -> None
UPDATE outbound SET state = 'answered', closed_at = clock_timestamp() WHERE id = :outbound AND state = 'open';

-- write: ask_further(outbound bigint, method text, params json, seconds float8) -> list[int]
WITH answered AS (
    UPDATE outbound SET state = 'answered', closed_at = clock_timestamp()
    WHERE id = :outbound AND state = 'open'
    RETURNING task_id, question_id, step, stream_id
)
INSERT INTO outbound (task_id, question_id, step, method, params, stream_id, due_at)
SELECT task_id, question_id, step + 1, :method, :params, stream_id, clock_timestamp() + make_interval(secs => :seconds)
FROM answered
ON CONFLICT (question_id, page, step) DO NOTHING
RETURNING task_id;

-- write: offer_page(task bigint, question bigint) -> list[int]
-- Locks the task first, as answer_page() does. Returns no row if the client was asked to open the page before.
WITH held AS (
    SELECT t.id FROM task AS t WHERE t.id = :task AND t.ended_at IS NULL FOR UPDATE
),
offered AS (
    INSERT INTO outbound (task_id, question_id, page, method, params, state, sent_at)
    SELECT q.task_id, q.id, true, 'elicitation/create', '{}', 'offered', clock_timestamp()
    FROM held AS h JOIN question AS q ON q.task_id = h.id AND q.id = :question AND q.state = 'open'
    ON CONFLICT (question_id, page, step) DO NOTHING
    RETURNING task_id
)
UPDATE task AS t SET version = t.version + 1
FROM offered AS o WHERE t.id = o.task_id
RETURNING t.id;

-- write: answer_page(task bigint, question bigint, verdict text, reason text, who text) -> bool
SELECT answer_page(:task, :question, :verdict, :reason, :who);

-- write: ended_pages(session bigint) -> list[str]
UPDATE outbound AS o SET state = 'answered'
FROM stream AS s, question AS q
WHERE o.state = 'accepted' AND s.id = o.stream_id AND s.session_id = :session
  AND q.id = o.question_id AND q.state <> 'open'
RETURNING o.params::text;

-- write: hurry(session bigint, client_task_id text) -> list[int]
UPDATE outbound AS o SET due_at = clock_timestamp()
FROM stream AS s
WHERE s.id = o.stream_id AND s.session_id = :session AND o.state = 'open' AND o.sent_at IS NULL
  AND o.method = 'tasks/get' AND o.params ->> 'taskId' = :client_task_id
RETURNING o.task_id;
