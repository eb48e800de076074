"""Measurements and progress of a run: taken in workers and driver, collected while it runs, shown in reports.

traffic    requests and bytes on the wire, by broker, API and version
cost       one task attempt: where it ran, how long, and its traffic
events     what a run reports to its listeners while it works
recorder   a listener that keeps all of it, in bounded space, for the report of a run that ended or failed
"""
