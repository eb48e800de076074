"""Consumer group membership: joining, assigning partitions, heartbeats, committing, leaving.

member                                  the public class; settings, ownership: its configuration and its assignment
classic, classic_join, heartbeat        the classic protocol: poll and commit, JoinGroup and SyncGroup, heartbeats
consumer                                the consumer rebalance protocol (KIP-848, "the new protocol"): the same
classic_session, consumer_session       both protocols without I/O; states: their state transition tables
consumer_protocol, topics               subscriptions and assignments as bytes; subscribed topics and their changes
assignor, java_order                    the base class of assignors; ties broken in Java's order
simple_assignors, sticky, sticky_*      range, roundrobin; sticky, cooperative-sticky
"""
