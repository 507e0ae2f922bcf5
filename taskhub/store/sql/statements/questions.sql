-- Questions: read and answered. The form: taskhub/store/statements.py.

-- write: answer(task bigint, key text, response text, verdict text, reason text, user bigint, context bigint,
--     final text, who text) -> Outcome
SELECT answer_v2(:task, :key, :response, :verdict, :reason, :user, :context, :final, :who);

-- write: refuse(task bigint, key text, error text, message text, who text) -> Outcome
SELECT refuse_v1(:task, :key, :error, :message, :who);
