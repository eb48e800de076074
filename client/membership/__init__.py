"""Consumer group membership: joining, assigning partitions, heartbeats, committing, leaving.

member                                  the user's interface; settings, ownership: its configuration and its assignment
classic, classic_join, heartbeat        the classic protocol: user's side, JoinGroup and SyncGroup, heartbeats
consumer                                the new one (KIP-848): user's side and heartbeats
classic_session, consumer_session       both without sockets; states: their states as tables
consumer_protocol, topics               subscriptions and assignments in bytes; what topics there are
assignor, java_order                    what an assignor is; ties broken as Java breaks them
simple_assignors, sticky, sticky_*      range, roundrobin; sticky, cooperative-sticky
"""
