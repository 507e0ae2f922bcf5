-- Statements of browser sessions. Format of this file: taskhub/store/statements.py.

-- write: purge_sign_ins(most int) -> rowcount
DELETE FROM sign_in WHERE digest = any(array(
    SELECT s.digest FROM sign_in AS s
    WHERE s.expire_date < statement_timestamp()
    ORDER BY s.expire_date LIMIT :most FOR UPDATE SKIP LOCKED
));
