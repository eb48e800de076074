"""What a run will read: snapshot, pre-flight checks, plan, group reconciliation, source identity, intervals."""
