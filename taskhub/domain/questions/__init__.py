"""Questions that hold up a task: approvals, forms, urls, samples of a model, roots.

open -> answered | superseded | expired; a question never opens again. An approval is answered by as many people as its
quorum says, each once, and its first rejection ends it. Who may answer is its audience (the client, people, either) and
its group. An answer is checked against what was asked before it counts (decision 4).

`answer` changes questions, `reads` reads single ones, `inbox` lists them for people.
"""
