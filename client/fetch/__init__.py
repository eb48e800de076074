"""Reading partitions with Fetch (1): one partition at a time, or many over one fetch session."""
