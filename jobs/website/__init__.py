"""The documentation as a site: `make docs`.

hooks       what mkdocs calls: adds the pages below and the repository's own (README.md …)
links       links between pages, as the site has them
cli_page    every command with its help
rules_page  the protocol's rules, and the tests that are marked with them

The pages on the protocol and on requests are made by `kseg.jobs.api.page` and `requests_page`.

Needs a checkout, and the extra `docs`.
"""
