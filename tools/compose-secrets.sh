#!/bin/sh
# Makes the secrets that docker-compose.yml names, in ./secrets or the directory that is given. What is there stays.
# The directory lets nobody in but its owner; the files are readable, since users inside containers are others.
set -eu
directory=${1:-"$(dirname "$0")/../secrets"}
umask 077
mkdir -p "$directory"
chmod 700 "$directory"

make() {
  [ -e "$directory/$1" ] || printf '%s\n' "$2" > "$directory/$1"
  chmod 444 "$directory/$1"
}

make secret_key "$(openssl rand -hex 32)"
make postgres_password "$(openssl rand -hex 32)"
make metrics_token "$(openssl rand -hex 32)"
make database_url "postgresql://taskhub:$(openssl rand -hex 32)@postgres/taskhub"
