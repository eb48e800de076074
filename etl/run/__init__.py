"""One run of a job: plan, land, account, commit, finish. Begin reading in `pipeline`."""
