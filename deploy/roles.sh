#!/bin/sh
# Runs once, in a PostgreSQL that is still empty: the owner of the tables, whom row-level security binds, and who serves.
set -eu
psql -v ON_ERROR_STOP=1 -v owner="$OWNER_PASSWORD" -v server="$SERVER_PASSWORD" -U postgres <<'SQL'
CREATE ROLE recalld_owner LOGIN PASSWORD :'owner';
CREATE ROLE recalld_runtime NOLOGIN NOBYPASSRLS;
CREATE ROLE recalld_server LOGIN PASSWORD :'server' IN ROLE recalld_runtime;
GRANT recalld_runtime TO recalld_owner;
CREATE DATABASE recalld OWNER recalld_owner ENCODING 'UTF8' TEMPLATE template0;
\connect recalld
CREATE EXTENSION IF NOT EXISTS vector;
SQL
