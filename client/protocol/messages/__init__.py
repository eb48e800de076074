"""All messages, one module per subject. Classes have the names of Kafka's definitions; attributes are in snake case.

A request's docstring begins with what its API does, then gives the history of its versions; the last paragraph is about
the request's own fields.

A nested struct is defined where it is used and, for short, on its message too: `FetchRequest.FetchTopic.FetchPartition`
is `FetchRequest.FetchPartition`. (mypy warns that such aliases may fail at run time as they would in a dataclass, with
an error of the kind "misc"; `schema.StructType` lets them be, so the modules that have some switch the warning off.)
"""
