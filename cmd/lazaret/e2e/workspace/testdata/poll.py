# Reports what the named files hold, whenever that changes.
#
#   poll.py NAME...
#
# A line is JSON: the name, the size that stat tells, and the content; null for
# a file that is not there.
import json, os, sys, time

last = {}
while True:
    for name in sys.argv[1:]:
        try:
            size = os.stat(name).st_size
            with open(name, "rb") as f:
                text = f.read().decode(errors="replace")
        except OSError:
            size, text = None, None
        if last.get(name, ()) != (size, text):
            last[name] = (size, text)
            print(json.dumps({"name": name, "size": size, "text": text}), flush=True)
    time.sleep(0.01)
