-- Browser sessions end with what they rest on, whoever changes it: the console, a shell or by hand.
-- Functions are versioned by name and never edited after a release.

-- Locked out, let in again, another password: whoever signed in before has to sign in anew.
CREATE FUNCTION end_sign_ins_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sign_in WHERE user_id = OLD.id;
    RETURN NULL;
END $$;

CREATE TRIGGER auth_user_signs_out AFTER UPDATE OF is_active, password ON auth_user
    FOR EACH ROW WHEN (OLD.is_active IS DISTINCT FROM NEW.is_active OR OLD.password IS DISTINCT FROM NEW.password)
    EXECUTE FUNCTION end_sign_ins_v1();

-- No role any more, or one elsewhere.
CREATE FUNCTION end_sign_ins_of_member_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sign_in WHERE user_id = OLD.user_id;
    RETURN NULL;
END $$;

CREATE TRIGGER membership_signs_out AFTER DELETE OR UPDATE OF tenant_id, user_id ON membership
    FOR EACH ROW EXECUTE FUNCTION end_sign_ins_of_member_v1();

-- Open sockets of that person look whether they may stay.
CREATE FUNCTION announce_sign_outs_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('taskhub', 'o ' || user_id) FROM (SELECT DISTINCT user_id FROM ended) who WHERE user_id IS NOT NULL;
    RETURN NULL;
END $$;

CREATE TRIGGER sign_in_ended AFTER DELETE ON sign_in REFERENCING OLD TABLE AS ended
    FOR EACH STATEMENT EXECUTE FUNCTION announce_sign_outs_v1();
