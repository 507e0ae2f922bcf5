#!/bin/sh
# Run by the postgres image on its first start, when the volume is empty. TaskHub signs in as an
# ordinary role: a superuser could switch off the guards that the database keeps.
set -eu
url=$(cat "${DATABASE_URL_FILE:-/run/secrets/database_url}")
password=${url#*://*:}
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" <<SQL
\set password '${password%%@*}'
CREATE ROLE taskhub LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
CREATE DATABASE taskhub OWNER taskhub;
SQL
