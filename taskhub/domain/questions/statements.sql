-- Questions: read and answered. The form: taskhub/store/statements.py.

-- write: answer(task bigint, key text, response text, verdict text, reason text, user bigint, context bigint,
--     final text, who text, undo_seconds float8) -> AnswerOutcome
SELECT answer(:task, :key, :response, :verdict, :reason, :user, :context, :final, :who, :undo_seconds);

-- write: undo_decision(question bigint, user bigint, who text) -> UndoOutcome
SELECT undo_decision(:question, :user, :who);

-- read fresh: undoable(tasks bigint[], user bigint) -> list[Undoable]
-- The approvals of these tasks on which the person can undo their decision.
SELECT q.id AS question, d.undo_until AS until FROM question AS q JOIN decision AS d ON d.question_id = q.id
WHERE q.task_id = any(:tasks) AND d.user_id = :user AND d.undo_until > statement_timestamp()
ORDER BY q.id;

-- write: refuse(task bigint, key text, error text, message text, who text) -> AnswerOutcome
SELECT refuse(:task, :key, :error, :message, :who);

-- write: drop_question(task bigint, epoch int, key text, who text) -> bool
SELECT drop_question(:task, :epoch, :key, :who);

-- read: response_to(task bigint, key text) -> _Stored | None
SELECT q.state, q.response, q.error FROM question AS q WHERE q.task_id = :task AND q.key = :key;


-- The inbox

-- The groups of those who are away and have named the person as their deputy.
/* fragment: stood_for
(
    SELECT coalesce(array_agg(g.name), array[]::varchar[]) FROM membership AS d
    JOIN absence AS s ON s.deputy_id = d.id
    JOIN membership AS p ON p.id = s.membership_id
    CROSS JOIN LATERAL unnest(p.groups) AS g (name)
    WHERE d.tenant_id = :tenant AND d.user_id = :user AND s.until > statement_timestamp()
)::varchar[]
*/
-- The obstacle for a person at an open question that they have not decided.
/* fragment: barred
CASE WHEN q.audience = 'client' THEN 'client'
     WHEN q.about_id IS NOT NULL AND q.person_id IS DISTINCT FROM :user THEN 'person'
     WHEN q.kind = 'approval' AND NOT :approve THEN 'role'
     WHEN q.kind = 'authorization' AND q.params ->> 'everyone' = 'true' AND NOT :manage THEN 'role'
     WHEN q.kind = 'authorization' AND q.params ->> 'user' <> (:user)::text THEN 'person'
     WHEN q."group" <> '' AND q."group" <> all(:groups)
          AND (q."group" <> all({stood_for}) OR th_acts_for(q.id, :user) IS NULL) THEN 'group'
     -- th_barred reads the task, and there may be many questions: so it is called only where something may bar the
     -- person.
     WHEN q.kind = 'approval' AND (
         q.called_at IS NULL OR q.due_at < statement_timestamp() OR q.params #>> '{decided,not_requester}' = 'true'
         OR q.called_at < (SELECT greatest(m.granted_at, m.governed_at) FROM membership AS m
                           WHERE m.tenant_id = :tenant AND m.user_id = :user)) THEN th_barred(q.id, :user)
     ELSE '' END
*/
-- The obstacle for a person at a question (`inbox.Obstacle`). `inbox_columns` computes the same obstacle from the
-- decisions that it reads anyway; no third place does.
/* fragment: obstacle
CASE WHEN q.state <> 'open' THEN 'closed'
     WHEN EXISTS (SELECT FROM decision AS d WHERE d.question_id = q.id AND d.user_id = :user) THEN 'decided'
     WHEN EXISTS (SELECT FROM decision AS d WHERE d.question_id = q.id AND d.for_user_id = :user) THEN 'deputy'
     ELSE {barred} END
*/
/* fragment: mine
(q.closed_at IS NULL AND {obstacle} = '' AND q.handed_by_id IS DISTINCT FROM :user)
*/
/* fragment: inbox_columns
q.id, t.id AS task_id, t.public_id, t.tool_name, s.name AS server, c.name AS client, t.state AS task_state,
t.created_at AS made_at, t.left_at, q.key, q.kind, q.state, q.params::text AS asked,
left(t.arguments::text, :arguments) AS arguments,
q.audience, q."group", q.quorum, v.approvals, q.about_id AS about, q.opened_at, q.closed_at, q.due_at, q.reminded_at,
CASE WHEN q.state <> 'open' THEN 'closed' WHEN v.by_person THEN 'decided'
     WHEN v.by_deputy THEN 'deputy' ELSE {barred} END AS obstacle, t.message,
coalesce((SELECT u.username FROM auth_user AS u WHERE u.id = q.handed_to_id), '') AS handed_to, q.handed_group,
coalesce(q.handed_to_id = :user, false) AS handed_to_me,
coalesce(v.actor, '') AS last_actor, coalesce(v.verdict, '') AS last_verdict,
w.id AS acts_for, coalesce(w.username, '') AS acts_for_name,
CASE WHEN q.kind = 'approval' AND q.state = 'answered' THEN coalesce((
    SELECT CASE WHEN o.params #>> '{decided,again}' = 'true' THEN 'rules_changed' ELSE o.params ->> 'asked_again' END
    FROM question AS o WHERE o.task_id = q.task_id AND o.kind = 'approval' AND o.id > q.id ORDER BY o.id LIMIT 1
), CASE WHEN t.state = 'faulted' AND t.decided ->> 'then' IN ('deny', 'hide') THEN t.decided ->> 'then' END, '')
ELSE '' END AS not_counted
*/
/* fragment: inbox
question AS q
JOIN task AS t ON t.id = q.task_id
JOIN auth_context AS c ON c.id = t.context_id
JOIN tool AS o ON o.id = t.tool_id
JOIN server AS s ON s.id = o.server_id
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE d.verdict = 'approve') AS approvals, bool_or(d.user_id = :user) AS by_person,
           bool_or(d.for_user_id = :user) AS by_deputy,
           (array_agg(d.actor ORDER BY d.id DESC))[1] AS actor,
           (array_agg(d.verdict ORDER BY d.id DESC))[1] AS verdict
    FROM decision AS d WHERE d.question_id = q.id
) AS v
LEFT JOIN auth_user AS w ON w.id = CASE
    WHEN q.closed_at IS NULL AND (q.handed_to_id IS NOT NULL OR q."group" = any({stood_for}))
    THEN th_acts_for(q.id, :user) END
*/

-- read fresh: count_waiting(tenant bigint, user bigint, groups text[], approve boolean, manage boolean) -> Waiting
SELECT count(*) FILTER (WHERE o.obstacle = '' AND o.handed_by_id IS DISTINCT FROM :user) AS mine,
       count(*) FILTER (WHERE o.obstacle = '' AND o.kind = 'approval') AS approvals,
       count(*) FILTER (WHERE o.obstacle = 'governed') AS governed
FROM (SELECT q.kind, q.handed_by_id, {obstacle} AS obstacle FROM question AS q
      WHERE q.tenant_id = :tenant AND q.closed_at IS NULL
      OFFSET 0) AS o; -- OFFSET 0: otherwise the obstacle would be computed for each of the counts

-- read: mine_of_task(tenant bigint, user bigint, groups text[], approve boolean, manage boolean, task bigint)
--     -> list[int]
SELECT q.id FROM question AS q WHERE q.tenant_id = :tenant AND q.task_id = :task AND {mine};

-- Whether two calls are of the same conversation: of one session, or without sessions of one trace.
/* fragment: together
CASE WHEN t.session_id IS NOT NULL THEN o.session_id IS NOT DISTINCT FROM t.session_id
     ELSE o.session_id IS NULL AND length(split_part(t.trace ->> 'traceparent', '-', 2)) = 32
         AND split_part(o.trace ->> 'traceparent', '-', 2) = split_part(t.trace ->> 'traceparent', '-', 2) END
*/
/* fragment: wanted
(:tool = '' OR t.tool_name = :tool) AND (:kind = '' OR q.kind = :kind) AND (:of_group = '' OR q."group" = :of_group)
AND (:older = 0 OR q.opened_at <= now() - make_interval(secs => :older))
AND (:newer = 0 OR q.opened_at > now() - make_interval(secs => :newer))
AND (:conversation = '' OR EXISTS (
    SELECT FROM task AS o WHERE o.public_id = :conversation AND o.context_id = t.context_id AND ({together})))
AND (:client = '' OR EXISTS (SELECT FROM auth_context AS c WHERE c.id = t.context_id AND c.name = :client))
AND (:risk = '' OR q.kind = 'approval' AND coalesce(q.params #>> '{decided,risk}', 'low') = :risk)
AND (cardinality(:words) = 0 OR (
    SELECT bool_and(position(w IN lower(concat_ws(
        ' ', t.public_id, t.tool_name, s.name, c.name, q."group", q.params ->> 'message',
        q.params #>> '{decided,sentence}', left(t.arguments::text, :arguments)))) > 0)
    FROM unnest(:words) AS w, auth_context AS c, tool AS b JOIN server AS s ON s.id = b.server_id
    WHERE c.id = t.context_id AND b.id = t.tool_id))
*/

-- The number by which questions are ordered for `sort`, smallest first. Statements that use it put the question that
-- was asked earlier first if two have the same number.
/* fragment: rank
CASE :sort WHEN 'newest' THEN -extract(EPOCH FROM q.opened_at)
           WHEN 'due' THEN coalesce(extract(EPOCH FROM q.due_at), 'infinity')
           WHEN 'risk' THEN CASE WHEN q.kind <> 'approval' THEN 0 ELSE -coalesce(
               array_position('{low,high,critical}', q.params #>> '{decided,risk}'), 1) END
           ELSE extract(EPOCH FROM q.opened_at) END
*/

-- read fresh: inbox_open(tenant bigint, user bigint, groups text[], approve boolean, manage boolean, arguments int,
--     most int, everything boolean, tool text, client text, kind text, risk text, of_group text, older float8,
--     newer float8, conversation text, sort text, words text[], after bigint, fold int) -> list[InboxItem]
-- The open questions of the tenant, or only those that wait for the person (`everything` is false), in the order
-- `sort`, from the question behind `after` on. If `fold` or more approvals are alike, only the first of them. If the
-- filter needs nothing of the tasks, the planner leaves the join with them out.
SELECT {inbox_columns}, f.alike FROM {inbox}
JOIN (
    SELECT o.id, o.alike, o.rank FROM (
        SELECT q.id, q.opened_at, {rank} AS rank, count(*) OVER same AS alike,
               row_number() OVER (same ORDER BY {rank}, q.opened_at, q.id) AS place
        FROM question AS q
        LEFT JOIN task AS t ON t.id = q.task_id
        WHERE q.tenant_id = :tenant AND q.closed_at IS NULL AND (:everything AND q.about_id IS NULL OR {mine})
          AND {wanted}
        WINDOW same AS (PARTITION BY coalesce(q.alike, int8send(q.id)))
    ) AS o
    WHERE (o.alike < :fold OR o.place = 1)
      AND (:after = 0 OR (o.rank, o.opened_at, o.id) > (
          SELECT {rank}, q.opened_at, q.id FROM question AS q WHERE q.id = :after))
    ORDER BY o.rank, o.opened_at, o.id LIMIT :most
) AS f ON f.id = q.id
ORDER BY f.rank, q.opened_at, q.id;

-- read fresh: others_of_conversation(task bigint) -> int
-- How many other calls of the task's conversation wait for an answer. ORDER BY makes the planner use the index of live
-- tasks, as in th_live_tasks in domain/tasks.
SELECT count(*) FROM (
    SELECT FROM task AS t
    JOIN task AS o
        ON o.context_id = t.context_id AND o.ended_at IS NULL AND o.state = 'input_required' AND o.id <> t.id
            AND ({together})
    WHERE t.id = :task
    ORDER BY o.arguments_digest
) AS live;

-- read fresh: inbox_alike(tenant bigint, user bigint, groups text[], approve boolean, manage boolean, arguments int,
--     most int, tool text, client text, kind text, risk text, of_group text, older float8, newer float8,
--     conversation text, words text[], question bigint) -> list[InboxItem]
-- The approvals of a narrowed queue that wait for the person and are decided together with this one.
SELECT {inbox_columns}, count(*) OVER () AS alike FROM {inbox}
WHERE q.tenant_id = :tenant AND {mine} AND {wanted}
  AND q.alike = (SELECT o.alike FROM question AS o WHERE o.id = :question AND o.closed_at IS NULL)
ORDER BY q.opened_at, q.id LIMIT :most;

-- read fresh: inbox_decided(tenant bigint, user bigint, groups text[], approve boolean, manage boolean, arguments int,
--     most int, after bigint) -> list[InboxItem]
SELECT {inbox_columns}, 1::bigint AS alike FROM {inbox}
WHERE q.tenant_id = :tenant AND q.closed_at IS NOT NULL AND q.about_id IS NULL
  AND (:after = 0 OR (q.closed_at, q.id) < (SELECT p.closed_at, p.id FROM question AS p WHERE p.id = :after))
ORDER BY q.closed_at DESC, q.id DESC LIMIT :most;

-- read: inbox_question(tenant bigint, user bigint, groups text[], approve boolean, manage boolean, arguments int,
--     question bigint) -> InboxItem | None
SELECT {inbox_columns}, 1::bigint AS alike FROM {inbox}
WHERE q.tenant_id = :tenant AND q.id = :question;

-- read fresh: question_of_task(tenant bigint, task text, key text) -> int | None
-- The task's question with this key, open or closed; if there is none, its newest open question.
SELECT q.id FROM question AS q JOIN task AS t ON t.id = q.task_id
WHERE t.tenant_id = :tenant AND t.public_id = :task AND (q.key = :key OR q.state = 'open')
ORDER BY q.key = :key DESC, q.id DESC LIMIT 1;

-- read fresh: replaced_by(question bigint) -> Replaced | None
SELECT e.actor, e.after ->> 'asked' AS key FROM question AS q
JOIN event AS e ON e.task_id = q.task_id AND e.action = 'question.edited' AND e.after ->> 'key' = q.key
WHERE q.id = :question LIMIT 1;

-- read fresh: question_digest(question bigint) -> str | None
-- Like `question.call_digest`, but of the call as it is now. The two differ if the tool or its server has changed.
SELECT encode(th_call_digest(q.task_id, q.params, q."group", q.quorum), 'hex')
FROM question AS q WHERE q.id = :question;

-- read fresh: edit_reason(question bigint) -> str | None
SELECT e.reason FROM question AS q
JOIN event AS e ON e.task_id = q.task_id AND e.action = 'question.edited' AND e.after ->> 'asked' = q.key
WHERE q.id = :question LIMIT 1;

-- write: remark(question bigint, words text, handed boolean, to_person bigint, to_group text, user bigint, most int,
--     who text) -> RemarkOutcome
SELECT remark(:question, :words, :handed, :to_person, :to_group, :user, :most, :who);

-- read fresh: remarks(task bigint) -> list[Remark]
SELECT e.after ->> 'key' AS key, e.actor, e.at, e.reason AS text, e.action = 'question.handed.over' AS handed,
       coalesce(e.after ->> 'person', '') AS person, coalesce(e.after ->> 'group', '') AS "group"
FROM event AS e WHERE e.task_id = :task AND e.action IN ('question.commented', 'question.handed.over')
ORDER BY e.id;

-- read fresh: able(question bigint, roles text[]) -> list[Able]
-- The people who may answer the question and have not decided on it.
SELECT u.id AS user_id, u.username AS name, m.groups FROM question AS q
JOIN membership AS m ON m.tenant_id = q.tenant_id
JOIN auth_user AS u ON u.id = m.user_id
WHERE q.id = :question AND q.state = 'open' AND u.is_active AND m.role = any(:roles)
  AND (q."group" = '' OR q."group" = any(m.groups)) AND th_barred(q.id, u.id) = ''
  AND NOT th_voted(q.id, u.id)
ORDER BY u.username;

-- read fresh: blockable(task bigint) -> Blockable
-- The client that made the call, and the tool that it called, as conditions of rules name them.
SELECT c.name AS client, c.issuer, c.subject, c.client_id, s.name AS server, o.name AS tool
FROM task AS t
JOIN auth_context AS c ON c.id = t.context_id
JOIN tool AS o ON o.id = t.tool_id
JOIN server AS s ON s.id = o.server_id
WHERE t.id = :task;

-- read fresh: question_votes(question bigint) -> list[Vote]
SELECT d.actor, d.verdict, d.reason, d.door, d.at, d.second_factor, d.undo_until
FROM decision AS d WHERE d.question_id = :question ORDER BY d.id;

-- read fresh: approvers_left(question bigint, roles text[]) -> int | None
-- How many people may approve the call and have not decided, counted up to the quorum. If approving needs a second
-- factor, only people who have one count. No row if the question is no open approval.
SELECT th_able_left(q, :roles)
FROM question AS q WHERE q.id = :question AND q.kind = 'approval' AND q.state = 'open';

-- read: approved_call(question bigint) -> ApprovedCall | None
SELECT q.definition, coalesce(encode(q.definition_digest, 'hex'), '') AS definition_digest,
       coalesce(encode(th_seen_digest(q.call_digest, w.digest), 'hex'), '') AS call_digest,
       coalesce(q.params #>> '{edited,digest}', encode(t.arguments_digest, 'hex')) AS arguments_digest,
       coalesce(t.answers, '{}') AS came_along,
       coalesce(p.definition, v.definition) AS before,
       array(
           SELECT d.actor FROM decision AS d
           WHERE d.question_id = p.id AND d.verdict IN ('approve', 'allow') ORDER BY d.id
       ) AS approved_by,
       exists(SELECT FROM decision AS d WHERE d.question_id = p.id AND d.verdict = 'allow') AS by_rule,
       c.issuer = 'taskhub/oauth' AS of_person,
       CASE WHEN t.rerun_of_id IS NULL THEN '' ELSE coalesce((
           SELECT e.actor FROM event AS e WHERE e.task_id = t.id AND e.action = 'task.created' LIMIT 1), '')
       END AS rerun_by
FROM question AS q
JOIN task AS t ON t.id = q.task_id
JOIN auth_context AS c ON c.id = t.context_id
LEFT JOIN LATERAL (
    SELECT o.id, o.definition FROM question AS o
    WHERE o.task_id = q.task_id AND o.kind = 'approval' AND o.state = 'answered' AND o.id < q.id
    ORDER BY o.id DESC LIMIT 1
) AS p ON true
-- Where no approval was required before the tool changed: the definition that the caller was offered, if it is kept.
LEFT JOIN tool_version AS v
    ON p.id IS NULL AND q.params ->> 'changed' = 'true' AND v.tool_id = t.tool_id
        AND v.digest = encode(t.tool_digest, 'hex')
LEFT JOIN preview AS w ON w.question_id = q.id
WHERE q.id = :question AND q.kind = 'approval';

-- read fresh: shown_preview(question bigint) -> ShownPreview | None
SELECT w.tool_name AS tool, w.arguments, w.tries, w.ended_at, w.text, w.left_out, w.is_error, w.problem,
       coalesce(encode(w.digest, 'hex'), '') AS digest,
       b.question_id IS NOT NULL AS changed, b.text AS before, coalesce(b.is_error, false) AS before_is_error
FROM preview AS w
JOIN question AS q ON q.id = w.question_id
LEFT JOIN LATERAL (
    SELECT o.id FROM question AS o
    WHERE o.task_id = q.task_id AND o.kind = 'approval' AND o.state = 'answered' AND o.id < q.id
    ORDER BY o.id DESC LIMIT 1
) AS p ON true
LEFT JOIN preview AS b ON b.question_id = p.id AND b.digest <> w.digest
WHERE w.question_id = :question;

-- read fresh: lost_call(question bigint) -> LostCall | None
SELECT t.tool_name, o.definition, coalesce(nullif(c.tool_name, ''), o.companion ->> 'tool', '') AS companion,
       c.question_id IS NOT NULL AS checked, c.ended_at AS checked_at, c.next_at, coalesce(c.tries, 0) AS tries,
       c.arguments AS check_arguments, c.result AS check_result, coalesce(c.problem, '') AS check_problem
FROM question AS q JOIN task AS t ON t.id = q.task_id JOIN tool AS o ON o.id = t.tool_id
LEFT JOIN outcome_check AS c ON c.question_id = q.id
WHERE q.id = :question AND q.kind = 'outcome';

-- read fresh: unruled(tenant bigint, most int) -> list[Unruled]
SELECT t.public_id, t.tool_name, s.name AS server, c.name AS client, q.opened_at, q.due_at, t.message
FROM question AS q
JOIN task AS t ON t.id = q.task_id
JOIN auth_context AS c ON c.id = t.context_id
JOIN tool AS o ON o.id = t.tool_id
JOIN server AS s ON s.id = o.server_id
WHERE q.tenant_id = :tenant AND q.closed_at IS NULL AND q.kind = 'outcome'
ORDER BY q.opened_at, q.id LIMIT :most;


-- News

-- Whether a person took part in a question: decided, commented or handed it over. Columns: q (question).
/* fragment: took_part
(
    EXISTS (SELECT FROM decision AS d WHERE d.question_id = q.id AND d.user_id = :user)
    OR EXISTS (
        SELECT FROM event AS o
        WHERE o.task_id = q.task_id AND o.user_id = :user AND o.after ->> 'key' = q.key
          AND o.action IN ('question.commented', 'question.handed.over', 'question.approve', 'question.reject'))
)
*/

-- read fresh: news_of_person(tenant bigint, user bigint, groups text[], approve boolean, manage boolean, admin boolean,
--     roles text[], arguments int, each int, most int, days int) -> list[News]
-- News for a person, newest first: one row for each question, for its newest event. Of each kind of event, only the
-- newest `each` of the tenant are looked at, and none older than `days`. Every row repeats which transactions the
-- statement could see (`below`, `still_open`), for `read_news`. `stuck`: fewer people can decide the question than have
-- to. The answer of a requester counts as news of the approval that it is about.
WITH told AS MATERIALIZED (
    SELECT e.id, e.xid, e.action, e.at, e.actor, e.user_id, e.task_id, e.after
    FROM unnest(ARRAY['question.asked', 'question.reminded', 'question.handed.over', 'question.commented',
                      'question.undone', 'question.answered.back']) AS a (action)
    CROSS JOIN LATERAL (
        SELECT * FROM event AS v WHERE v.tenant_id = :tenant AND v.action = a.action ORDER BY v.id DESC LIMIT :each
    ) AS e
    WHERE e.at > statement_timestamp() - make_interval(days => :days)
),
reached AS (
    SELECT q.*, q.action IN ('question.asked', 'question.reminded') AND q.undecided AND :admin
           AND NOT (q.mine AND q.quorum = 1) AS may_be_stuck
    FROM (
        SELECT e.id AS event_id, e.xid, e.action, e.at, e.actor, e.user_id, e.after, q.id, q.task_id, q.key, q.quorum,
               q.handed_to_id, q.kind = 'approval' AND q.closed_at IS NULL AS undecided,
               e.action <> 'question.answered.back' AND {mine} AS mine
        FROM told AS e
        JOIN question AS q ON q.task_id = e.task_id AND q.key = coalesce(e.after ->> 'about', e.after ->> 'key')
        OFFSET 0
    ) AS q -- OFFSET 0: otherwise `mine` would be computed wherever it is used
    WHERE CASE q.action
          WHEN 'question.handed.over' THEN
              q.mine AND q.user_id <> :user
              AND (q.handed_to_id = :user OR q.after ->> 'group' = any(:groups))
          WHEN 'question.commented' THEN q.user_id <> :user AND (q.mine OR {took_part})
          WHEN 'question.undone' THEN
              q.user_id <> :user AND (q.mine AND q.after ->> 'reopened' = 'true' OR {took_part})
          WHEN 'question.answered.back' THEN
              q.undecided AND EXISTS (
                  SELECT FROM question AS b
                  WHERE b.task_id = q.task_id AND b.key = q.after ->> 'key' AND b.asked_by_id = :user)
          ELSE q.mine OR :admin AND q.undecided END
),
newest AS (
    SELECT * FROM (
        SELECT DISTINCT ON (r.id) r.event_id, r.xid, r.action, r.at, r.actor, r.id AS question,
               q.id IS NOT NULL AS stuck
        FROM reached AS r
        LEFT JOIN question AS q ON q.id = r.id AND r.may_be_stuck AND th_undecidable(q, :roles)
        WHERE r.mine OR q.id IS NOT NULL
           OR r.action IN ('question.commented', 'question.undone', 'question.answered.back')
        ORDER BY r.id, r.event_id DESC
    ) AS n
    ORDER BY n.event_id DESC LIMIT :most
),
seen AS MATERIALIZED (
    SELECT g.below, g.still_open FROM news_read AS g JOIN membership AS m ON m.id = g.membership_id
    WHERE m.tenant_id = :tenant AND m.user_id = :user
)
SELECT n.event_id AS id, n.action, n.at, n.actor, n.stuck,
       NOT coalesce((SELECT n.xid < g.below AND n.xid <> all(g.still_open) FROM seen AS g), false) AS unread,
       q.id AS question, q.kind, q.state, t.tool_name, s.name AS server, c.name AS client, q.params::text AS asked,
       left(t.arguments::text, :arguments) AS arguments, q."group", q.about_id AS about,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint + event_shift() AS below,
       array(SELECT x::text::bigint + event_shift() FROM pg_snapshot_xip(pg_current_snapshot()) AS x) AS still_open
FROM newest AS n
JOIN question AS q ON q.id = n.question
JOIN task AS t ON t.id = q.task_id
JOIN auth_context AS c ON c.id = t.context_id
JOIN tool AS o ON o.id = t.tool_id
JOIN server AS s ON s.id = o.server_id
ORDER BY n.event_id DESC;

-- write: read_news(tenant bigint, user bigint, below bigint, still_open bigint[]) -> rowcount
-- A list that is older than what was read before changes nothing.
INSERT INTO news_read AS r (membership_id, below, still_open)
SELECT m.id, :below, :still_open FROM membership AS m WHERE m.tenant_id = :tenant AND m.user_id = :user
ON CONFLICT (membership_id) DO UPDATE SET below = excluded.below, still_open = excluded.still_open
WHERE r.below <= excluded.below;


-- Asked back

-- write: ask_back(approval bigint, params json, words text, audience text, person bigint, user bigint, most_open int,
--     most int, who text) -> AskOutcome
SELECT ask_back(:approval, :params, :words, :audience, :person, :user, :most_open, :most, :who);

-- write: withdraw_asked_back(question bigint, user bigint, who text) -> WithdrawOutcome
SELECT withdraw_asked_back(:question, :user, :who);

-- read fresh: requester(question bigint, roles text[], listed boolean) -> Requester
-- `roles`: the roles that may answer in the inbox; `listed`: whether clients see the hub's own tools, if nothing else
-- is set for this client.
SELECT coalesce(t.client_capabilities, '{}') AS capabilities, t.revision = 'approvals' AS decides_only,
       coalesce(t.decided -> 'scopes' ? 'tasks:answer', true) AS may_answer,
       NOT t.handle AND coalesce(e.ended_at IS NOT NULL, false) AS session_over,
       (t.waiter IS NOT NULL OR t.left_at IS NOT NULL) AND coalesce(c.hub_tools, :listed) AS hub_tools,
       u.id AS user_id, u.username AS person, n.asked, n.open
FROM question AS q
JOIN task AS t ON t.id = q.task_id
JOIN auth_context AS c ON c.id = t.context_id
LEFT JOIN session AS e ON e.id = t.session_id
LEFT JOIN membership AS m ON m.tenant_id = t.tenant_id AND m.user_id = th_user_of(c) AND m.role = any(:roles)
LEFT JOIN auth_user AS u ON u.id = m.user_id AND u.is_active
CROSS JOIN LATERAL (
    SELECT count(*) AS asked, count(*) FILTER (WHERE b.state = 'open') AS open
    FROM question AS b WHERE b.task_id = q.task_id AND b.about_id IS NOT NULL
) AS n
WHERE q.id = :question;

-- read fresh: asked_back(task bigint, user bigint) -> list[AskedBack]
SELECT q.id, q.key, e.actor AS asker, coalesce(q.asked_by_id = :user, false) AS mine, e.reason AS text,
       coalesce(u.username, '') AS person, q.state, q.opened_at AS asked_at, q.closed_at,
       coalesce(d.actor, '') AS answered_by, coalesce(d.verdict, '') AS verdict, coalesce(d.reason, '') AS note,
       coalesce(q.response::json #>> '{content,answer}', '') AS answer,
       coalesce(q.error::json ->> 'message', '') AS refused,
       exists(
           SELECT FROM event AS w
           WHERE w.task_id = q.task_id AND w.action = 'question.withdrawn' AND w.after ->> 'key' = q.key
       ) AS withdrawn
FROM question AS q
JOIN event AS e ON e.task_id = q.task_id AND e.action = 'question.asked.back' AND e.after ->> 'key' = q.key
LEFT JOIN auth_user AS u ON u.id = q.person_id
LEFT JOIN decision AS d ON d.question_id = q.id
WHERE q.task_id = :task AND q.about_id IS NOT NULL
ORDER BY q.id;

-- read fresh: waiting_alongside(task bigint, most int) -> list[int]
-- The open approvals of other calls of the same tool by the same client. ORDER BY makes the planner use the index of
-- live tasks, as in th_live_tasks in domain/tasks.
SELECT w.id FROM (
    SELECT o.id FROM task AS t
    JOIN task AS o
        ON o.context_id = t.context_id AND o.ended_at IS NULL AND o.state = 'input_required' AND o.id <> t.id
            AND o.tool_id = t.tool_id
    WHERE t.id = :task
    ORDER BY o.arguments_digest
) AS live CROSS JOIN LATERAL (
    SELECT q.id FROM question AS q WHERE q.task_id = live.id AND q.state = 'open' AND q.kind = 'approval' OFFSET 0
) AS w
ORDER BY w.id LIMIT :most;
