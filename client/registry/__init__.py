"""A Schema Registry by its REST API: schemas by id, by GUID and by subject, with their references."""
