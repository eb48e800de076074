"""The catalogue of errors, in one entry for each: exit codes, refusals by code, all other errors by class.

    exit_codes      what a process ends with: meaning, who acts, whether a retry may help
    entry           an entry's parts: cause and remedy, and for a refusal the sentences of each case
    decoding, ledger, runs, source, tables
                    refusals by code; `Refused.of` makes errors of them
    kinds           all other errors by class, with exit codes; those of `client` and `segment_reader`, too
    problems        what `kseg status` finds and no command ends with

Messages, `kseg explain`, the site's page of errors, Airflow's retries and the tables of README.md are views of it. It
imports nothing, so that errors of all folders can be made from it.
"""
