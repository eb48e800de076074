"""Formats that travel as opaque bytes inside of other messages and of records: no API, a version in front.

framing            the int16 version that stands before the body
consumer_protocol  what a consumer tells its group, and what it is assigned (JoinGroup, SyncGroup, DescribeGroups)
"""
