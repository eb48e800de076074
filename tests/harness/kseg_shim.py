"""`kseg` on the PATH of a page's reader, in place of a program that imports everything first (`forked_commands.py`).

    python -I -S kseg_shim.py SOCKET ARGUMENT…

Hands its arguments, folder, environment, stdin, stdout and stderr over, and ends as the command has ended.
"""

import json
import os
import socket
import sys
from pathlib import Path

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
    channel.connect(sys.argv[1])
    request = {"arguments": sys.argv[2:], "folder": str(Path.cwd()), "environment": dict(os.environ)}
    socket.send_fds(channel, [json.dumps(request).encode()], [0, 1, 2])
    answer = channel.recv(64)
sys.exit(int(answer) if answer else "the tests' nursery has ended")
