"""Being a member of a consumer group: joining, sharing partitions out, staying alive, committing, leaving.

assignor, java_order                    what an assignor is; ties broken as Java breaks them
simple_assignors, sticky, sticky_*      range, roundrobin; sticky, cooperative-sticky
states                                  the members' states as tables
"""

from client.membership.assignor import Assignment, Assignor, Subscription
from client.membership.simple_assignors import RangeAssignor, RoundRobinAssignor
from client.membership.sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = [
    "Assignment",
    "Assignor",
    "CooperativeStickyAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
]
