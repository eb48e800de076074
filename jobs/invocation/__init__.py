"""From a command line to a command's function, and from its result to stdout and an exit code.

invocation       what all commands have in common, as one frozen value
options          the click options that fill it
layout_options   the options of commands that read log files
command          the click command that builds the invocation and passes it to the command's function
execution        progress, run file and reports around the function; its result or error as output and exit code
job              a job file and the invocation's options as a `Job`
result           what a command returns
failures         errors as documents, as text, and as exit codes
server_commands  start, stop and status of a server that is kept on this machine
run_file         `--run-file`: the state of a run as a JSON file
"""
