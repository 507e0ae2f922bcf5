"""Questions that a task waits for: approvals, forms, addresses to open, sampling, roots.

The states are open -> answered | superseded | expired; a closed question opens again only if a decision on an approval
is undone. The audience of a question (the client, people, either) and its group say who may answer it. An approval
needs as many people as its quorum says, each once; the first rejection ends it. An answer is checked against the
question before it counts (decision 4).

`answer` changes questions, `reads` reads single ones, `inbox` lists them for people.
"""
