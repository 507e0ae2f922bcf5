-- Trigger: after any change of a person, by the console, a command or SQL, lets every process check again what their
-- tokens may do.

CREATE OR REPLACE FUNCTION announce_people() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('taskhub', 'p');
    RETURN NULL;
END $$;

-- Trigger of `auth_user`: ends the browser sessions of a person who is disabled or enabled, or whose password changes.
CREATE OR REPLACE FUNCTION end_sign_ins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sign_in WHERE user_id = OLD.id;
    RETURN NULL;
END $$;

-- Trigger of `membership`: ends the browser sessions of a person who lost the role, or got one in another tenant.
CREATE OR REPLACE FUNCTION end_sign_ins_of_member() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sign_in WHERE user_id = OLD.user_id;
    RETURN NULL;
END $$;

-- Trigger of `sign_in`: lets the WebSockets of persons whose sessions ended check whether they may stay open.
CREATE OR REPLACE FUNCTION announce_sign_outs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('taskhub', 'o ' || user_id)
    FROM (SELECT DISTINCT user_id FROM ended) who WHERE user_id IS NOT NULL;
    RETURN NULL;
END $$;
