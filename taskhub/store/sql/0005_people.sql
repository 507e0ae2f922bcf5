-- Whoever changes a person, by the console, a shell or by hand: every process looks anew at what a
-- token of theirs is worth. Functions are versioned by name and never edited after a release.

CREATE FUNCTION announce_people_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('taskhub', 'p');
    RETURN NULL;
END $$;

CREATE TRIGGER auth_user_announced AFTER DELETE OR UPDATE OF is_active ON auth_user
    FOR EACH STATEMENT EXECUTE FUNCTION announce_people_v1();

CREATE TRIGGER membership_announced AFTER DELETE OR UPDATE ON membership
    FOR EACH STATEMENT EXECUTE FUNCTION announce_people_v1();
