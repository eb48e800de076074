"""``python -m kseg.jobs.demo``."""

from kseg.jobs.demo.main import main

main(prog_name="python -m kseg.jobs.demo")
