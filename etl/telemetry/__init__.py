"""Progress and measurements of a run, collected while it works and shown in reports.

events     what a run reports to its listeners while it works
recorder   a listener that keeps all of it, in bounded space, for the report of a run that ended or failed
"""
