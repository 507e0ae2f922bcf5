"""The audit log: what happened, by whom, and the proof that nobody changed it since.

An event is only ever added: the database refuses to change or remove one, for every user. It is written in the
transaction of the change that it records, by a trigger for tasks (`functions.sql`) and by `record` for everything else;
`kinds` lists every action with its fields. A worker seals events that are final (`seal`): a signed Merkle root over all
events of a range of transactions, linked to the seal before. `verify` reads events and seals again and says what does
not fit. The log lies in parts by id (`partitions`); the oldest is written to a file with its own proof (`archive`). A
log that moved into another cluster continues behind what was sealed before (`moved`).

Not here: who may read it (`core.permissions`), and the lines of the process's own log (`lib.logs`).
"""
