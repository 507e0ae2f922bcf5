"""The configuration of a tenant as one file: rules, servers with the settings of their tools, people, clients.

`document` reads and writes the file, and knows the line of each value. `references` fills in secrets, which the file
names and never contains: variables of the environment, and files. `reads` has the configuration as it is; `differences`
says in words how two configurations differ. `control.configuration` applies what is read here, by the use cases that
pages and commands call too.
"""
