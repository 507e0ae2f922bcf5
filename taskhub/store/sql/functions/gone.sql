-- What earlier releases called and none does any more.

DROP FUNCTION IF EXISTS answer_v1, ask_v1, claim_tasks_v1, claim_tasks_v2, claim_tasks_v4, create_tasks_v1,
    create_tasks_v2, deliver_v1, th_open_questions, th_unfit_v1;

-- Their rows changed while tasks ran, and every change wrote an entry into each index of the table.
DROP INDEX IF EXISTS task_leased, task_by_session;
