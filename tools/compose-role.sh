#!/bin/sh
# Run by the postgres image on its first start, when the volume is empty. TaskHub signs in as an
# ordinary role: a superuser could switch off the guards that the database keeps.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$DATABASE_PASSWORD" --username "$POSTGRES_USER" <<'SQL'
CREATE ROLE taskhub LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
CREATE DATABASE taskhub OWNER taskhub;
SQL
