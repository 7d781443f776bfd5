"""The conformance suite: what every belief, objective, search and named method keeps to, those of plug-ins too.

    pytest --pyargs natsel.conformance                        everything that is registered
    pytest --pyargs natsel.conformance -k "MyBelief"          what concerns one entry

Tests read the registries, so that a new entry is covered at once. Only two things have to be said about it: how to make
a small pool of a new kind of belief (`grid.MAKERS`), and what a new quantity is, worked out a second time
(`references.REFERENCES`). A plug-in says both in a module that it names under the entry-point group
`natsel.conformance`.  docs/plug-ins.md.
"""
