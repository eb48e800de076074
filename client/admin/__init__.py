"""Everything that an administrator asks of a cluster: one function an API, one module a subject.

    topics         create, delete, add partitions, delete records      describe      topics and partitions as they are
    configs        settings of topics, brokers, groups …               features      levels, supported and finalized
    acls           who may do what                                     quotas        how much of it
    credentials    SCRAM users                                         tokens        delegation tokens
    nodes          brokers, controllers, the metadata quorum           log_dirs      where replicas lie on disks
    placement      reassignments and leader elections                  transactions  who writes; ending one that hangs
    groups         delete groups, their offsets, static members        share_groups  offsets of share groups
    telemetry      metrics that the cluster wants of its clients

One convention holds for all requests of many parts (topics, groups, resources, brokers …): the function returns
`client.cluster.results.Results`, a dict from part to its value *or* its error, which is typed and carries its address.

    created = create_topics(cluster, [NewTopic("a"), NewTopic("b")])
    created["a"]            a CreatedTopic, or for example TopicExists
    created.or_raise()      all values, or the first lasting error with the others in its notes
    created.failed()        the errors alone

Such a function raises only when no part has an outcome: no broker answers, or the request as a whole is rejected. Parts
that failed for now are tried again by themselves up to `default.api.timeout.ms`. Functions for one thing (as
`create_topic`) raise its error. Where every broker is asked, the parts are the brokers, by id.

Each request goes to the broker that it belongs to: controller, a named broker, a partition's leader, a coordinator, or
any broker.
None for a collection means "all" (or for the cluster's own choice), an empty one for none.
"""
