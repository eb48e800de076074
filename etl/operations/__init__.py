"""What else a person may want of a job: backfill, recover, repair, verify, audit, maintain, status."""
