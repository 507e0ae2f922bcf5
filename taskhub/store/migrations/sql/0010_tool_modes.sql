-- A tool's own hint is `_meta["taskhub/task"]` alone. Before, `execution.taskSupport` was read as one too: it
-- describes the server behind us, and the TypeScript SDK writes "forbidden" on every tool. A server that
-- is away does not list again soon, so what is stored is read anew here.

UPDATE tool SET hint_mode = said.mode
FROM (
    SELECT id, CASE WHEN definition #>> '{_meta,taskhub/task}' IN ('auto', 'always', 'never', 'required')
               THEN definition #>> '{_meta,taskhub/task}' END AS mode
    FROM tool
) said
WHERE tool.id = said.id AND tool.hint_mode IS DISTINCT FROM said.mode;
