"""What a run cost and how it went: measured in workers and driver, gathered while it runs, told in reports.

traffic    what went over the wire during some work, by broker, API and version
cost       one task attempt: where it ran, how long, and its traffic
events     what a run reports to its listeners while it works
recorder   a listener that keeps all of it, in bounded space, for the report of a run that ended or failed
"""
