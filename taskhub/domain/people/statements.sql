-- Statements of browser sessions. Format of this file: taskhub/store/statements.py.

-- write: purge_sign_ins(most int) -> rowcount
DELETE FROM sign_in WHERE digest = any(array(
    SELECT s.digest FROM sign_in AS s
    WHERE s.expire_date < statement_timestamp()
    ORDER BY s.expire_date LIMIT :most FOR UPDATE SKIP LOCKED
));

-- write: end_sign_ins_but(user int, kept text) -> rowcount
-- Ends the person's browser sessions, also those that wait for a code, except for the session whose digest is `kept`.
DELETE FROM sign_in AS s WHERE s.user_id = :user AND s.digest <> :kept;


-- Codes of second factors

-- write: try_code(user int, seconds int) -> int
-- Counts a code that the person tries, and returns how many codes that makes in the current period. A period begins
-- with its first code, and ends `seconds` later.
INSERT INTO code_use AS c (user_id, tries, tries_since) VALUES (:user, 1, clock_timestamp())
ON CONFLICT (user_id) DO UPDATE SET
    tries = CASE WHEN c.tries_since < clock_timestamp() - make_interval(secs => :seconds) THEN 1
                 ELSE least(c.tries, 1000000) + 1 END,
    tries_since = CASE WHEN c.tries_since < clock_timestamp() - make_interval(secs => :seconds)
                       THEN clock_timestamp() ELSE c.tries_since END
RETURNING tries;

-- write: forget_tries(user int) -> None
UPDATE code_use SET tries = 0 WHERE user_id = :user;

-- write: use_code(user int, step bigint) -> rowcount
-- If two requests bring the same code at the same moment, the second waits for the row and changes nothing.
UPDATE code_use SET step = :step WHERE user_id = :user AND step < :step;

-- read: stands_in_for(tenant bigint, user bigint) -> list[Away]
-- The absences of people who have named the person as their deputy, ordered by name.
SELECT u.username AS person, s.until, v.username AS deputy
FROM membership AS d
JOIN absence AS s ON s.deputy_id = d.id AND s.until > statement_timestamp()
JOIN membership AS p ON p.id = s.membership_id
JOIN auth_user AS u ON u.id = p.user_id
JOIN auth_user AS v ON v.id = d.user_id
WHERE d.tenant_id = :tenant AND d.user_id = :user
ORDER BY u.username;
