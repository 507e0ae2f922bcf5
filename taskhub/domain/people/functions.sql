-- Whoever changes a person, by the console, a shell or by hand: every process looks anew at what a
-- token of theirs is worth.

CREATE OR REPLACE FUNCTION announce_people() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('taskhub', 'p');
    RETURN NULL;
END $$;

-- Browser sessions end with what they rest on, whoever changes it. Locked out, let in again, another password:
-- whoever signed in before has to sign in anew.
CREATE OR REPLACE FUNCTION end_sign_ins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sign_in WHERE user_id = OLD.id;
    RETURN NULL;
END $$;

-- No role any more, or one elsewhere.
CREATE OR REPLACE FUNCTION end_sign_ins_of_member() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sign_in WHERE user_id = OLD.user_id;
    RETURN NULL;
END $$;

-- Open sockets of that person look whether they may stay.
CREATE OR REPLACE FUNCTION announce_sign_outs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('taskhub', 'o ' || user_id)
    FROM (SELECT DISTINCT user_id FROM ended) who WHERE user_id IS NOT NULL;
    RETURN NULL;
END $$;
