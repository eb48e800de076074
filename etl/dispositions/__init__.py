"""How a run's rows relate to the rows that its tables have already: added to them, or in place of some."""
