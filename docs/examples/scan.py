"""Scans the file that is named first; waits and tries again when the service says so."""
import os
import sys
import time

import requests

TRIES = 4


def scan(path):
    for attempt in range(TRIES):
        with open(path, "rb") as file:
            answer = requests.post(
                os.environ["SLUICE_URL"] + "/api/v1/scans",
                headers={"X-API-KEY": os.environ["SLUICE_KEY"]},
                files={"file": (os.path.basename(path), file)},
                timeout=120,
            )
        if answer.status_code != 503 or attempt == TRIES - 1:
            return answer
        time.sleep(int(answer.headers.get("Retry-After", "5")))


answer = scan(sys.argv[1])
if answer.status_code != 200:
    # 422: not fully looked at, which is not the same as clean. 429: the hour's quota is used up.
    sys.exit(f"no verdict: {answer.status_code} {answer.text}")
verdict = answer.json()
print("infected: " + verdict["virusName"] if verdict["infected"] else "clean")
sys.exit(1 if verdict["infected"] else 0)
