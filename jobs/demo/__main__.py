"""``python -m jobs.demo``."""

from jobs.demo.main import main

main(prog_name="python -m jobs.demo")
