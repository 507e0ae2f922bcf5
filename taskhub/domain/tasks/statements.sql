-- Tasks: how they are read by their owners and by people, created, claimed, run and ended. The format of this file:
-- taskhub/store/statements.py.

/* fragment: task_columns
v.id, v.public_id, v.revision, v.state, v.message, v.progress, v.total, v.created_at, v.updated_at, v.ended_at,
v.ttl_ms, v.poll_interval_ms, v.result AS result_json, v.error AS error_json, v.is_error, v.cancel_requested_at,
v.version, v.tool_name, v.open_questions AS questions, v.session_id, v.progress_token, v.handle, v.client_task_id,
v.keep_ms, v.join_seconds, v.left_at, v.ended_as
*/

-- An ended task past its ttl is gone for its owner, though the console still keeps it.
/* fragment: remembered
(v.ended_at IS NULL OR v.expires_at IS NULL OR v.expires_at >= clock_timestamp())
*/

-- Single tasks

-- read: owned_task(public_id text, context bigint) -> TaskRecord | None
SELECT {task_columns} FROM task_view AS v
WHERE v.public_id = :public_id AND v.context_id = :context AND {remembered};

-- read: owned_tasks(public_ids text[], contexts bigint[]) -> list[tuple[int, TaskRecord]]
-- LIMIT makes this an index look-up for each id, even in a plan that was made on an empty table.
SELECT w.place, {task_columns}
FROM unnest(:public_ids, :contexts) WITH ORDINALITY AS w (public_id, context_id, place)
CROSS JOIN LATERAL (
    SELECT * FROM task_view AS t WHERE t.public_id = w.public_id AND t.context_id = w.context_id LIMIT 1
) AS v
WHERE {remembered};

-- read: task_versions(public_ids text[]) -> list[tuple[str, int]]
SELECT v.public_id, v.version
FROM unnest(:public_ids) AS w (public_id)
CROSS JOIN LATERAL (SELECT t.public_id, t.version FROM task AS t WHERE t.public_id = w.public_id LIMIT 1) AS v;

-- read: task_by_id(task bigint) -> TaskRecord | None
SELECT {task_columns} FROM task_view AS v WHERE v.id = :task;

-- read: tasks_by_id(tasks bigint[]) -> list[TaskRecord]
SELECT {task_columns} FROM unnest(:tasks) AS w (id)
CROSS JOIN LATERAL (SELECT * FROM task_view AS t WHERE t.id = w.id LIMIT 1) AS v;

-- read: task_id_in(tenant bigint, public_id text) -> int | None
SELECT t.id FROM task AS t WHERE t.public_id = :public_id AND t.tenant_id = :tenant;

-- read: keyed_task(context bigint, key text) -> TaskRecord | None
SELECT {task_columns} FROM task_view AS v
WHERE v.id = (SELECT t.id FROM task AS t WHERE t.context_id = :context AND t.idempotency_key = :key) AND {remembered};

-- read: asking_tasks(session bigint) -> list[TaskRecord]
SELECT {task_columns} FROM task_view AS v
WHERE v.session_id = :session AND v.state = 'input_required'
  AND (v.handle OR EXISTS (SELECT FROM stream AS w WHERE w.task_id = v.id))
ORDER BY v.id;

-- read: plain_tasks(context bigint, open boolean, unread boolean, most int) -> list[TaskRecord]
-- `open` and `unread` say which tasks are wanted: those that have not ended, those whose result was not fetched.
SELECT {task_columns} FROM task_view AS v
WHERE v.id IN (
        (SELECT t.id FROM task AS t
         WHERE t.context_id = :context AND t.ended_at IS NULL AND NOT t.handle AND :open
         ORDER BY t.id DESC LIMIT :most)
        UNION ALL
        (SELECT t.id FROM task AS t
         WHERE t.context_id = :context AND t.left_at IS NOT NULL AND t.ended_at IS NOT NULL AND :unread
         ORDER BY t.id DESC LIMIT :most)
    ) AND {remembered}
ORDER BY v.id DESC LIMIT :most;

-- read: changed_tasks(session bigint, since timestamptz) -> list[tuple[TaskRecord, bool]]
-- Only live tasks and those that ended after `since` can have changed after it, and both are few in a session. The
-- minute covers the time between a task's timestamps and its commit.
SELECT {task_columns}, exists(SELECT FROM stream AS w WHERE w.task_id = v.id AND th_served(w)) AS served
FROM task_view AS v
WHERE v.id IN (
        SELECT t.id FROM task AS t WHERE t.session_id = :session AND t.ended_at IS NULL
        UNION ALL
        SELECT t.id FROM task AS t WHERE t.session_id = :session AND t.ended_at >= :since - interval '1 minute'
    ) AND v.updated_at > :since AND v.handle
ORDER BY v.updated_at
LIMIT 100;

/* fragment: handed_out_before
t.context_id = :context AND t.revision = any(:revisions) AND t.handle AND t.id < :before
*/

-- read: handed_out(context bigint, revisions text[], before bigint, looked_at int, most int) -> list[TaskRecord]
-- The newest tasks that have not expired for their owner. Usually they are among the client's newest tasks (`newest`).
-- If those are of other revisions or expired, as after a long pause, the next one may be far down: then tasks are found
-- by their expiry (`further`), which leaves out all the history. The condition uses statement_timestamp(), since the
-- volatile clock_timestamp() cannot bound an index scan.
WITH newest AS MATERIALIZED (
    SELECT n.id
    FROM (
        SELECT t.id, t.revision, t.handle, t.ended_at, t.expires_at
        FROM task AS t
        WHERE t.context_id = :context AND t.id < :before
        ORDER BY t.id DESC
        LIMIT :looked_at
    ) AS n
    WHERE n.revision = any(:revisions) AND n.handle
      AND (n.ended_at IS NULL OR n.expires_at IS NULL OR n.expires_at >= statement_timestamp())
    ORDER BY n.id DESC
    LIMIT :most
),
further AS MATERIALIZED (
    SELECT t.id FROM task AS t
    WHERE t.expires_at >= statement_timestamp() AND {handed_out_before} AND (SELECT count(*) < :most FROM newest)
    UNION
    SELECT t.id FROM task AS t
    WHERE t.expires_at IS NULL AND {handed_out_before} AND (SELECT count(*) < :most FROM newest)
    UNION
    SELECT t.id FROM task AS t
    WHERE t.ended_at IS NULL AND {handed_out_before} AND (SELECT count(*) < :most FROM newest)
)
SELECT {task_columns} FROM task_view AS v
WHERE v.id = any(array(
    SELECT id FROM newest UNION SELECT id FROM further ORDER BY id DESC LIMIT :most
))
ORDER BY v.id DESC;

-- read: handed_out_in_session(session bigint, context bigint, revisions text[], before bigint, most int)
--     -> list[TaskRecord]
SELECT {task_columns} FROM task_view AS v
WHERE v.id = any(array(
    SELECT t.id FROM task AS t
    WHERE t.session_id = :session AND {handed_out_before}
      AND (t.ended_at IS NULL OR t.expires_at IS NULL OR t.expires_at >= statement_timestamp())
))
ORDER BY v.id DESC
LIMIT :most;

-- read: lines_after(task bigint, line bigint, most int) -> list[StoredLine]
SELECT l.id, l.level, l.text, l.progress, l.total, l.at
FROM task_log AS l WHERE l.task_id = :task AND l.id > :line ORDER BY l.id LIMIT :most;

-- One task, for people

-- read: task_detail(tenant bigint, public_id text, most int) -> TaskDetail | None
SELECT {task_columns}, t.tool_id, t.tool_name, o.name AS upstream_name, s.id AS server_id, s.name AS server,
       c.id AS context_id, c.name AS client, t.arguments, t.decided, t.edited,
       t.worker,
       nullif(t.lease_until, 'infinity') AS lease_until, t.crashes, t.max_attempts, t.at_least_once,
       array(SELECT jsonb_array_elements_text(o.retry_on)) AS retry_on, t.run_seconds, t.runnable_at, t.expires_at,
       t.last_polled_at, t.idempotency_key, t.client_info, t.trace,
       (SELECT count(*) FROM worker AS w WHERE th_alive(w)) AS live_workers,
       s.enabled AS server_enabled, s.removed_at IS NOT NULL AS server_removed, s.transport, s.calls_at_once,
       coalesce(f.reason, '') AS unfit, coalesce(f.why, '') AS unfit_why, o.gone_at IS NOT NULL AS tool_gone,
       t.ended_at IS NULL AND th_to_decide(t.tenant_id, t.context_id, t.decided, t.tool_digest, o.digest) AS to_decide,
       s.open_since AS away_since, s.retry_at, CASE WHEN t.state = 'queued' THEN (
           SELECT count(*) FROM task AS r JOIN tool AS u ON u.id = r.tool_id
           WHERE r.worker <> '' AND r.ended_at IS NULL AND r.lease_until IS NOT NULL
             AND u.server_id = s.id) ELSE 0 END AS running_there,
       CASE WHEN t.state = 'queued' THEN (
           SELECT count(*) FROM (
               SELECT b.tool_id FROM task AS b
               WHERE b.state = 'queued' AND b.runnable_at <= t.runnable_at AND b.id <> t.id
               ORDER BY b.runnable_at, b.id LIMIT :most) AS older
           JOIN tool AS u ON u.id = older.tool_id WHERE u.server_id = s.id) ELSE 0 END AS ahead,
       t.rerun_of_id, (SELECT count(*) FROM task_log AS l WHERE l.task_id = t.id) AS log_lines
FROM task_view AS v
JOIN task AS t ON t.id = v.id
JOIN tool AS o ON o.id = t.tool_id
JOIN server AS s ON s.id = o.server_id
JOIN auth_context AS c ON c.id = t.context_id
LEFT JOIN th_unfit(ARRAY[t.id]) AS f ON true
WHERE v.public_id = :public_id AND v.tenant_id = :tenant;

-- read fresh: task_relatives(task bigint, origin bigint) -> list[tuple[int, Relative]]
SELECT t.id, t.public_id, t.state, t.is_error, t.ended_as, t.created_at FROM task AS t
WHERE t.id = :origin OR t.rerun_of_id = :task ORDER BY t.id = :origin DESC NULLS LAST, t.id DESC LIMIT 21;

-- read fresh: task_attempts(task bigint, most int) -> list[AttemptRow]
SELECT a.number, a.worker, a.started_at, a.ended_at, a.outcome, a.error, d.upstream_id AS server_task, d.home,
       d.status AS server_status, d.created_at AS deferred_at, d.poll_at, d.poll_ms, th_lives(d.home) AS home_lives
FROM attempt AS a LEFT JOIN deferred AS d ON d.task_id = a.task_id AND d.epoch = a.number
WHERE a.task_id = :task ORDER BY a.number DESC LIMIT :most;

-- read fresh: task_reads(task bigint, most int) -> list[ReadRow]
SELECT c.name AS client, r.count, r.first_at, r.last_at
FROM result_read AS r JOIN auth_context AS c ON c.id = r.context_id
WHERE r.task_id = :task ORDER BY r.last_at DESC LIMIT :most;

-- read fresh: task_events(task bigint, most int) -> list[TaskEvent]
SELECT e.id, e.at, e.action, e.actor, e.door, e.address, e.reason, e.before, e.after
FROM event AS e WHERE e.task_id = :task ORDER BY e.id DESC LIMIT :most;

-- read fresh: newest_lines(task bigint, skip int, most int) -> list[StoredLine]
SELECT l.id, l.level, l.text, l.progress, l.total, l.at
FROM task_log AS l WHERE l.task_id = :task ORDER BY l.id DESC LIMIT :most OFFSET :skip;

-- read: task_questions(task bigint, most int) -> list[TaskQuestion]
SELECT q.id, q.key, q.kind, q.state, q.params::text AS asked, q.audience, q."group", q.quorum, q.live, q.response,
       q.about_id AS about, q.opened_at, q.closed_at, q.due_at, q.reminded_at,
       coalesce(q.definition_digest <> decode(o.digest, 'hex'), false) AS outdated
FROM question AS q JOIN task AS t ON t.id = q.task_id JOIN tool AS o ON o.id = t.tool_id
WHERE q.task_id = :task ORDER BY q.id DESC LIMIT :most;

-- read: task_votes(task bigint) -> list[tuple[int, Vote]]
SELECT d.question_id, d.actor, d.verdict, d.reason, d.door, d.at, d.second_factor, d.undo_until
FROM decision AS d JOIN question AS q ON q.id = d.question_id
WHERE q.task_id = :task ORDER BY d.id;

-- Changes of tasks

-- write: create_tasks(wanted json, who text) -> list[_Made]
SELECT r_n AS n, r_existed AS existed, r_reused AS reused, r_id AS id, r_created_at AS created_at,
       r_in_place AS in_place
FROM create_tasks(:wanted, :who);

-- write: join_or_create_tasks(wanted json, who text) -> list[_Made]
SELECT r_n AS n, r_existed AS existed, r_reused AS reused, r_id AS id, r_created_at AS created_at,
       r_in_place AS in_place
FROM join_or_create_tasks(:wanted, :who);

-- read: count_live_tasks(context bigint) -> int
SELECT th_live_tasks(:context);

-- read: count_open_approvals(context bigint, session bigint, trace text) -> tuple[int, int]
-- The open approvals of the context, and how many of them are of the session or, if `session` is null, of the trace (''
-- for none).
SELECT o.of_context, o.of_conversation FROM th_open_approvals(:context, :session, :trace) AS o;

-- write: take_turn_to_ask(context bigint) -> None
-- Until this transaction ends, no other transaction creates a task of this client that needs an approval.
SELECT pg_advisory_xact_lock(hashtextextended('approvals', :context));

-- read: known_key(context bigint, key text) -> bool
SELECT exists(SELECT FROM task AS t WHERE t.context_id = :context AND t.idempotency_key = :key);

-- write: claim_tasks(worker text, free int, lease_seconds float8, per_context int, share int, scarce bigint[],
--     rooms int[], since timestamptz, who text) -> list[_Taken]
-- `waited` is 0 for a task that was queued after this statement began: it can be claimed, but is not visible here.
-- `LIMIT`, since a join that was planned for small tables would read all tasks.
SELECT id, public_id, epoch, tenant_id, context_id, server_id, server_name, tool_id, upstream_tool, arguments, answers,
       upstream_state, client_capabilities, trace, question_audience, run_seconds, given, revision, to_decide,
       r_more AS more, r_since AS since, r_skipped AS skipped, r_held_back AS held_back,
       coalesce(extract(EPOCH FROM clock_timestamp() - w.runnable_at), 0)::float8 AS waited,
       coalesce(w.decided ? 'preview', false) OR w.edited IS NOT NULL AS previewed
FROM claim_tasks(:worker, :free, :lease_seconds, :per_context, :share, :scarce, :rooms, :since, :who) AS c
LEFT JOIN LATERAL (
    SELECT t.runnable_at, t.decided, t.edited FROM task AS t WHERE t.id = c.id LIMIT 1
) AS w ON true;

-- read: signed_in(context bigint) -> str
SELECT th_signed_in(c)::text FROM auth_context AS c WHERE c.id = :context;

-- write: decide_again(task bigint, epoch int, decided jsonb, approval json, refusal text, who text) -> bool
SELECT decide_again(:task, :epoch, :decided, :approval, :refusal, :who);

-- write: renew_leases(worker text, tasks bigint[], epochs int[], lease_seconds float8) -> list[tuple[int, bool]]
SELECT id, cancel_requested FROM renew_leases(:worker, :tasks, :epochs, :lease_seconds);

-- read: held_by(worker text) -> list[tuple[int, int]]
SELECT t.id, t.lease_epoch FROM task AS t
WHERE t.worker = :worker AND t.worker <> '' AND t.ended_at IS NULL AND t.lease_until IS NOT NULL ORDER BY t.id;

-- read: unruled_tasks(tasks bigint[], epochs int[]) -> list[int]
SELECT t.id
FROM unnest(:tasks, :epochs) AS held (id, epoch)
JOIN task AS t ON t.id = held.id AND t.lease_epoch = held.epoch
WHERE t.state = 'input_required' AND th_unruled(t.id);

-- write: note(task bigint, epoch int, lines jsonb, most int) -> bool
SELECT note(:task, :epoch, :lines, :most);

-- read: goes_on_by_tools(task bigint, listed boolean) -> bool
-- `listed`: whether clients see the hub's own tools, if nothing else is set for this client.
SELECT (t.waiter IS NOT NULL OR t.left_at IS NOT NULL) AND coalesce(a.hub_tools, :listed)
FROM task AS t
JOIN auth_context AS a ON a.id = t.context_id
WHERE t.id = :task;

-- write: ask(task bigint, epoch int, asked json, upstream_state text, message text, live boolean, given json, who text)
--     -> bool
SELECT ask(:task, :epoch, :asked, :upstream_state, :message, :live, :given, :who);

-- write: finish_tasks(ended json, who text) -> list[int]
SELECT finish_tasks(:ended, :who);

-- write: fault(task bigint, epoch int, error text, message text, kind text, who text) -> bool
SELECT fault(:task, :epoch, :error, :message, :kind, :who);

-- write: settle_cancel(task bigint, epoch int, message text, who text) -> bool
SELECT settle_cancel(:task, :epoch, :message, :who);

-- write: defer_task(task bigint, epoch int, server bigint, upstream text, revision text, home text, status text,
--     poll_ms int, delay_ms int, ran_seconds float8, message text, session bytea, who text) -> bool
SELECT defer_task(:task, :epoch, :server, :upstream, :revision, :home, :status, :poll_ms, :delay_ms, :ran_seconds,
                  :message, :session, :who);

-- write: take_polls(worker text, servers bigint[], rooms int[], lease_seconds float8) -> list[_Poll]
SELECT id, public_id, epoch, tenant_id, context_id, server_id, server_name, tool_id, upstream_tool, session,
       client_capabilities, question_audience, run_seconds, upstream_id, revision, status, turn, poll_ms, message,
       cancelling, ended, overdue, ran_seconds, live, keys FROM take_polls(:worker, :servers, :rooms, :lease_seconds);

-- write: put_back_polls(polls json, who text) -> list[int]
SELECT put_back_polls(:polls, :who);

-- write: end_poll(task bigint, turn int, status text) -> bool
SELECT end_poll(:task, :turn, :status);

-- write: fault_deferred(task bigint, epoch int, turn int, status text, error text, message text, kind text, who text)
--     -> bool
SELECT fault_deferred(:task, :epoch, :turn, :status, :error, :message, :kind, :who);

-- write: lose_deferred(task bigint, epoch int, turn int, told text, outcome_seconds float8, who text) -> bool
SELECT lose_deferred(:task, :epoch, :turn, :told, :outcome_seconds, :who);

-- write: cancel_deferred(task bigint, epoch int, turn int, status text, message text, who text) -> bool
SELECT cancel_deferred(:task, :epoch, :turn, :status, :message, :who);

-- write: ask_deferred(task bigint, epoch int, turn int, asked json, message text, delay_ms int, who text) -> bool
SELECT ask_deferred(:task, :epoch, :turn, :asked, :message, :delay_ms, :who);

-- write: take_checks(worker_seconds float8, most int) -> list[_Due]
-- A check that a worker takes is due again some time later, in case that worker is lost.
WITH due AS MATERIALIZED (
    SELECT c.question_id FROM outcome_check AS c
    WHERE c.ended_at IS NULL AND c.next_at <= statement_timestamp()
    ORDER BY c.next_at LIMIT :most FOR UPDATE SKIP LOCKED
),
taken AS (
    UPDATE outcome_check AS c
    SET tries = c.tries + 1, next_at = clock_timestamp() + make_interval(secs => :worker_seconds)
    FROM due WHERE c.question_id = due.question_id
    RETURNING c.question_id, c.tries
)
SELECT k.question_id, k.tries, q.key, q.state = 'open' AS open, t.id AS task_id, t.public_id, t.tenant_id, t.context_id,
       coalesce(t.edited -> 'arguments', t.arguments)::text AS arguments,
       o.companion::text, o.server_id, s.name AS server_name, coalesce(p.id, 0) AS companion_id,
       coalesce(p.exposed_name, o.companion ->> 'tool', '') AS exposed_name,
       coalesce(p.read_only AND p.gone_at IS NULL AND p.rejected = '' AND s.removed_at IS NULL
                AND NOT (s.review AND p.confirmed_digest <> p.digest), false) AS fits,
       coalesce(p.definition, '{}')::text AS companion_definition,
       o.exposed_name AS tool_name, o.definition::text
FROM taken AS k JOIN question AS q ON q.id = k.question_id JOIN task AS t ON t.id = q.task_id
JOIN tool AS o ON o.id = t.tool_id JOIN server AS s ON s.id = o.server_id
LEFT JOIN tool AS p ON p.server_id = s.id AND p.name = o.companion ->> 'tool'
ORDER BY k.question_id;

-- write: put_off_check(question bigint, tries int, seconds float8, problem text) -> rowcount
UPDATE outcome_check SET next_at = clock_timestamp() + make_interval(secs => :seconds), problem = :problem
WHERE question_id = :question AND tries = :tries AND ended_at IS NULL;

-- write: end_check(question bigint, tries int, tool text, arguments text, result text, problem text, who text) -> bool
SELECT end_check(:question, :tries, :tool, :arguments, :result, :problem, :who);

/* fragment: preview_call
q.id AS question_id, q.key, q.state = 'open' AS open, q.params::text AS params, t.id AS task_id,
t.public_id, t.tenant_id, t.context_id, coalesce(q.params #> '{edited,arguments}', t.arguments)::text AS arguments,
t.revision, t.client_capabilities::text, o.server_id,
s.name AS server_name, coalesce(p.id, 0) AS tool_id, coalesce(p.name, '') AS name, th_may_call(c) AS may,
coalesce(p.gone_at IS NULL AND p.rejected = '' AND s.removed_at IS NULL
         AND NOT (s.review AND p.confirmed_digest <> p.digest), false) AS offered,
coalesce(p.read_only, false) AS read_only, coalesce(p.enabled, false) AS enabled,
coalesce(p.definition, '{}')::text AS definition
*/
/* fragment: preview_tables
question AS q
JOIN task AS t ON t.id = q.task_id
JOIN auth_context AS c ON c.id = t.context_id
JOIN tool AS o ON o.id = t.tool_id
JOIN server AS s ON s.id = o.server_id
LEFT JOIN tool AS p ON p.server_id = s.id AND p.name = coalesce(q.params #>> '{decided,preview,tool}', o.name)
*/

-- write: take_previews(worker text, worker_seconds float8, most int) -> list[_Due]
-- A preview that a worker takes is due again some time later, as in take_checks. Only the worker with the client's
-- session can read what the client keeps at its server.
WITH due AS MATERIALIZED (
    SELECT w.question_id
    FROM preview AS w
    JOIN question AS q ON q.id = w.question_id
    JOIN task AS t ON t.id = q.task_id
    JOIN tool AS o ON o.id = t.tool_id
    WHERE w.ended_at IS NULL AND w.next_at <= statement_timestamp()
      AND NOT EXISTS (
          SELECT FROM upstream_session AS u
          WHERE u.server_id = o.server_id AND u.context_id = t.context_id AND u.ended_at IS NULL
            AND u.worker <> :worker AND th_lives(u.worker)
      )
    ORDER BY w.next_at LIMIT :most FOR UPDATE OF w SKIP LOCKED
),
taken AS (
    UPDATE preview AS w
    SET tries = w.tries + 1, next_at = clock_timestamp() + make_interval(secs => :worker_seconds)
    FROM due WHERE w.question_id = due.question_id
    RETURNING w.question_id, w.tries, w.problem
)
SELECT {preview_call}, k.tries, k.problem, '' AS digest
FROM taken AS k JOIN {preview_tables} ON q.id = k.question_id
ORDER BY k.question_id;

-- read: approved_preview(task bigint) -> _Due | None
-- The preview that people approved last; no row if nobody did, such as when the rule let the call run.
SELECT {preview_call}, 0 AS tries, '' AS problem, encode(w.digest, 'hex') AS digest
FROM {preview_tables} JOIN preview AS w ON w.question_id = q.id AND w.ended_at IS NOT NULL
WHERE q.id = (
    SELECT max(a.id) FROM question AS a WHERE a.task_id = :task AND a.kind = 'approval' AND a.state = 'answered'
) AND EXISTS (SELECT FROM decision AS d WHERE d.question_id = q.id AND d.verdict = 'approve');

-- write: edit_call(task bigint, key text, approval text, response text, reason text, user bigint, votes boolean,
--     who text, undo_seconds float8) -> EditOutcome
SELECT edit_call(:task, :key, :approval::json, :response, :reason, :user, :votes, :who, :undo_seconds);

-- write: put_off_preview(question bigint, tries int, seconds float8, problem text) -> rowcount
UPDATE preview SET next_at = clock_timestamp() + make_interval(secs => :seconds), problem = :problem
WHERE question_id = :question AND tries = :tries AND ended_at IS NULL;

-- write: end_preview(question bigint, tries int, tool text, arguments text, text text, left_out int, is_error boolean,
--     problem text, digest text, who text) -> bool
SELECT end_preview(:question, :tries, :tool, :arguments, :text, :left_out, :is_error, :problem, :digest, :who);

-- write: compare_preview(task bigint, epoch int, question bigint, tool text, arguments text, text text, left_out int,
--     is_error boolean, problem text, digest text, who text) -> Compared
SELECT compare_preview(
    :task, :epoch, :question, :tool, :arguments, :text, :left_out, :is_error, :problem, :digest, :who
);

-- write: lose(task bigint, epoch int, told text, outcome_seconds float8, who text) -> bool
SELECT lose(:task, :epoch, :told, :outcome_seconds, :who);

-- write: release(task bigint, epoch int, started boolean, delay_seconds float8, reason text, outcome_seconds float8,
--     who text) -> bool
SELECT release(:task, :epoch, :started, :delay_seconds, :reason, :outcome_seconds, :who);

-- write: request_cancel(task bigint, who text) -> str
SELECT request_cancel(:task, :who);

-- write: cancel_now(task bigint, who text) -> str
SELECT cancel_now(:task, :who);

-- write: end_calls_of_removed(server bigint, most int, who text) -> int
SELECT end_calls_of_removed(:server, :most, :who);

-- read fresh: live_calls(server bigint, most int) -> LiveCalls
SELECT count(*) FILTER (WHERE l.state <> 'working')::int AS waiting,
       count(*) FILTER (WHERE l.state = 'working' AND l.lease_until < 'infinity')::int AS running,
       count(*) FILTER (WHERE l.state = 'working' AND l.lease_until = 'infinity')::int AS deferred
FROM (
    SELECT t.state, t.lease_until FROM task AS t
    WHERE t.ended_at IS NULL AND t.tool_id IN (SELECT o.id FROM tool AS o WHERE o.server_id = :server)
    LIMIT :most
) AS l;

-- write: leave_task(task bigint, waiter text, interim boolean, who text) -> datetime | None
SELECT leave_task(:task, :waiter, :interim, :who);

-- write: wait_for_task(task bigint, waiter text) -> None
UPDATE task SET left_at = NULL, waiter = :waiter WHERE id = :task AND NOT handle AND client_task_id IS NULL;

-- write: cancel_left(task bigint, left_at timestamptz, who text) -> bool
SELECT cancel_left(:task, :left_at, :who);

-- write: fetched(task bigint) -> None
UPDATE task SET left_at = NULL, waiter = NULL WHERE id = :task AND (left_at IS NOT NULL OR waiter IS NOT NULL);

-- write: hand_out(task bigint) -> None
UPDATE task SET handle = true WHERE id = :task AND NOT handle;

-- write: forget_task(task bigint) -> str | None
UPDATE task SET expires_at = clock_timestamp() WHERE id = :task AND ended_at IS NOT NULL RETURNING public_id;

-- write: store_polls(tasks bigint[], polled float8[]) -> None
UPDATE task AS t SET last_polled_at = greatest(t.last_polled_at, to_timestamp(p.at))
FROM unnest(:tasks, :polled) AS p (id, at) WHERE t.id = p.id AND t.ended_at IS NULL;

-- write: store_reads(tasks bigint[], contexts bigint[], firsts float8[], lasts float8[], counts bigint[]) -> None
-- The tasks are locked first, in order: a task may be purged meanwhile, and other web processes store reads of the same
-- tasks.
WITH kept AS (SELECT id FROM task WHERE id = any(:tasks) ORDER BY id FOR KEY SHARE)
INSERT INTO result_read AS r (task_id, context_id, first_at, last_at, count)
SELECT n.task, n.context, to_timestamp(n.first), to_timestamp(n.last), n.count
FROM unnest(:tasks, :contexts, :firsts, :lasts, :counts) AS n (task, context, first, last, count)
JOIN kept ON kept.id = n.task
ORDER BY n.task, n.context
ON CONFLICT (task_id, context_id) DO UPDATE SET
    first_at = least(r.first_at, excluded.first_at),
    last_at = greatest(r.last_at, excluded.last_at),
    count = r.count + excluded.count;

-- write: sweep(grace_seconds float8, most int, outcome_seconds float8, who text) -> int
SELECT sweep(:grace_seconds, :most, :outcome_seconds, :who);

-- write: purge_tasks(retention_days int, most int) -> rowcount
-- An array, because a plan may run a subquery of `IN` again and find other rows each time.
-- The statement's time, because the volatile clock_timestamp() cannot bound an index scan.
DELETE FROM task WHERE id = any(array(
    SELECT id FROM task
    WHERE ended_at < statement_timestamp() - make_interval(days => :retention_days)
    ORDER BY ended_at LIMIT :most FOR UPDATE SKIP LOCKED
));

-- How long calls take

-- write: store_timings(servers bigint[], kinds text[], seconds float8[], counts bigint[], buckets int) -> None
-- Rows are stored in the same order in every transaction, so that two workers do not deadlock. Those of removed servers
-- are left out.
INSERT INTO timing AS t (server_id, kind, seconds, counts)
SELECT r.server, r.kind, r.seconds,
       (:counts)[(r.n - 1) * :buckets + 1 : r.n * :buckets]
FROM unnest(:servers, :kinds, :seconds) WITH ORDINALITY AS r (server, kind, seconds, n)
JOIN server AS s ON s.id = r.server AND s.removed_at IS NULL ORDER BY r.server, r.kind
ON CONFLICT (server_id, kind) DO UPDATE SET
    seconds = t.seconds + excluded.seconds,
    counts = array(
        SELECT b.kept + b.added FROM unnest(t.counts, excluded.counts) WITH ORDINALITY AS b (kept, added, n)
        ORDER BY b.n
    );

-- read fresh: server_timings() -> list[ServerTiming]
SELECT each.server, each.kind, array_agg(each.count ORDER BY each.n) AS counts, sum(each.seconds) AS seconds
FROM (
    SELECT s.name AS server, t.kind, c.n, sum(c.count)::bigint AS count,
           sum(t.seconds) FILTER (WHERE c.n = 1) AS seconds
    FROM timing AS t JOIN server AS s ON s.id = t.server_id
    CROSS JOIN LATERAL unnest(t.counts) WITH ORDINALITY AS c (count, n)
    GROUP BY s.name, t.kind, c.n
) AS each
GROUP BY each.server, each.kind ORDER BY each.server, each.kind;
