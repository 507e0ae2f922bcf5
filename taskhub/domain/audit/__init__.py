"""The audit log: what happened, by whom, and the proof that nobody changed it since.

An event is only ever added: the database refuses to change or remove one, whoever asks. It is written in the
transaction of what it tells of, by a trigger for tasks (`functions.sql`) and by `record` for everything else; `kinds`
lists every action with its fields. A worker seals what is final (`seal`): a signed Merkle root over all events of a
range of transactions, chained to the seal before. `verify` reads events and seals again and says what does not fit.
The log lies in parts by id (`partitions`); the oldest is written to a file that proves itself (`archive`). A log that
moved into another cluster goes on behind what was sealed there (`moved`).

Not here: who may read it (`core.permissions`), and the lines of the process's own log (`lib.logs`).
"""
