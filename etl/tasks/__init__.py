"""What workers do, whatever executor starts them: read packs of ranges, write files, report results and errors."""
