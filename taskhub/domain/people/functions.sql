-- After any change of a person, from the console, a shell or by hand, every process checks anew what their tokens may
-- do.

CREATE OR REPLACE FUNCTION announce_people() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('taskhub', 'p');
    RETURN NULL;
END $$;

-- Browser sessions of a person end when they are locked out or let in again, or their password changes, however that
-- happens: they have to sign in anew.
CREATE OR REPLACE FUNCTION end_sign_ins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sign_in WHERE user_id = OLD.id;
    RETURN NULL;
END $$;

-- The person has no role any more, or one in another tenant.
CREATE OR REPLACE FUNCTION end_sign_ins_of_member() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sign_in WHERE user_id = OLD.user_id;
    RETURN NULL;
END $$;

-- Open sockets of the person check whether they may stay.
CREATE OR REPLACE FUNCTION announce_sign_outs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('taskhub', 'o ' || user_id)
    FROM (SELECT DISTINCT user_id FROM ended) who WHERE user_id IS NOT NULL;
    RETURN NULL;
END $$;
