"""Questions that hold up a task: approvals, forms, urls, sampling, roots.

open -> answered | superseded | expired; a question never opens again. An approval needs as many people as its quorum
says, each once; the first rejection ends it. Its audience (the client, people, either) and its group say who may
answer. An answer is checked against the question before it counts (decision 4).

`answer` changes questions, `reads` reads single ones, `inbox` lists them for people.
"""
