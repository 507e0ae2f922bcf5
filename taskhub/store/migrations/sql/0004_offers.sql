-- Rows live for seconds or as long as a stream, and are worth nothing after a crash.

ALTER TABLE relay SET UNLOGGED;
ALTER TABLE interest SET UNLOGGED;
