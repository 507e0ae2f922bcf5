-- Messages and cards in Slack. The format: taskhub/store/statements.py.

-- Cards, each with the person who got it.
/* fragment: card_columns
n.id AS notice_id, n.public_id, s.public_id AS message, k.question_id, k.call_digest, k.refused, n.kind,
n.tenant_id, n.user_id, u.username, u.is_active AS active, coalesce(a.address, '') AS address,
coalesce(g.zone, 'UTC') AS zone
*/
/* fragment: cards
slack_card AS k
JOIN slack_message AS s ON s.notice_id = k.message_id
JOIN notice AS n ON n.id = k.notice_id
JOIN auth_user AS u ON u.id = n.user_id
LEFT JOIN membership AS m ON m.user_id = n.user_id AND m.tenant_id = n.tenant_id
LEFT JOIN notice_choices AS g ON g.membership_id = m.id
LEFT JOIN notice_address AS a ON a.choices_id = m.id AND a.channel = n.channel
*/

-- write: store_slack_message(message text, notice bigint, more int) -> rowcount
-- A message that is tried again keeps its row, though its first notice may be another by then.
INSERT INTO slack_message (notice_id, public_id, more) VALUES (:notice, :message, :more)
ON CONFLICT (public_id) DO UPDATE SET more = excluded.more;

-- write: store_cards(message text, notices bigint[], questions bigint[], digests text[]) -> rowcount
-- Stores the cards of a message that is about to be posted, and deletes its other cards: a message that is tried again
-- may have fewer. A question that was purged meanwhile gets no card.
WITH before AS (
    DELETE FROM slack_card AS k USING slack_message AS s
    WHERE s.public_id = :message AND k.message_id = s.notice_id AND k.notice_id <> all(:notices)
)
INSERT INTO slack_card (notice_id, message_id, question_id, call_digest)
SELECT r.notice, s.notice_id, r.question, r.digest
FROM unnest(:notices, :questions, :digests) AS r (notice, question, digest)
JOIN question AS q ON q.id = r.question
JOIN slack_message AS s ON s.public_id = :message
ON CONFLICT (notice_id) DO UPDATE SET call_digest = excluded.call_digest;

-- write: place_message(message text, conversation text, ts text, shown text) -> rowcount
-- The message is due to be looked at once more, since something may have changed while it was on its way.
UPDATE slack_message SET conversation = :conversation, ts = :ts, shown = :shown, look_at = clock_timestamp()
WHERE public_id = :message AND ts = '';

-- read fresh: card_of_notice(public_id text) -> Card | None
SELECT {card_columns} FROM {cards} WHERE n.public_id = :public_id;

-- read fresh: cards_of_message(message text) -> list[Card]
SELECT {card_columns} FROM {cards} WHERE s.public_id = :message ORDER BY k.question_id, n.id;

-- write: retire_card(notice bigint, why text) -> rowcount
UPDATE slack_card SET refused = :why WHERE notice_id = :notice;

-- write: changed_message(message text) -> rowcount
UPDATE slack_message SET changes = changes + 1, tries = 0, look_at = coalesce(look_at, clock_timestamp())
WHERE public_id = :message;

-- write: changed_messages(tasks bigint[]) -> rowcount
-- The messages with a card about a question of these tasks. They are locked in one order, so that two transactions
-- never wait for each other.
WITH found AS (
    SELECT s.notice_id FROM slack_message AS s
    WHERE s.notice_id IN (
        SELECT k.message_id FROM question AS q JOIN slack_card AS k ON k.question_id = q.id
        WHERE q.task_id = any(:tasks))
    ORDER BY s.notice_id FOR NO KEY UPDATE
)
UPDATE slack_message AS s SET changes = s.changes + 1, tries = 0, look_at = coalesce(s.look_at, clock_timestamp())
FROM found AS f WHERE s.notice_id = f.notice_id;

-- write: take_changed(seconds float8, most int) -> list[Changed]
-- Messages that have to be looked at, under a lease: another worker looks at them after these seconds.
UPDATE slack_message AS s SET look_at = clock_timestamp() + make_interval(secs => :seconds)
WHERE s.notice_id = any(array(
    SELECT o.notice_id FROM slack_message AS o
    WHERE o.look_at <= statement_timestamp() AND o.ts <> '' ORDER BY o.look_at LIMIT :most FOR UPDATE SKIP LOCKED))
RETURNING s.public_id, s.conversation, s.ts, s.more, s.shown, s.changes, s.tries;

-- write: end_changed(message text, changes int, shown text) -> rowcount
UPDATE slack_message SET shown = :shown, tries = 0,
       look_at = CASE WHEN changes > :changes THEN clock_timestamp() END
WHERE public_id = :message;

-- write: put_off_changed(message text, seconds float8) -> rowcount
-- The message is looked at after `seconds`; if that is null, not before something changes again.
UPDATE slack_message SET tries = tries + 1, look_at = clock_timestamp() + make_interval(secs => :seconds)
WHERE public_id = :message;
