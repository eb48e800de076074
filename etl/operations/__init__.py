"""Operations on a job besides an incremental run: backfill, recover, repair, verify, audit, maintain, status."""
