"""Scans the file that is named first; waits and tries again when the service says so.

Ends with 0 when it is clean, 1 when it is infected, 2 when there is no verdict.
"""
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
                headers={"X-API-KEY": os.environ["SLUICE_API_KEY"]},
                files={"file": (os.path.basename(path), file)},
                timeout=120,
            )
        if answer.status_code != 503 or attempt == TRIES - 1:
            return answer
        time.sleep(int(answer.headers.get("Retry-After", "5")))


try:
    answer = scan(sys.argv[1])
except (OSError, requests.RequestException) as problem:
    print(f"no verdict: {problem}", file=sys.stderr)
    sys.exit(2)
if answer.status_code != 200:
    # 422: not fully looked at, which is not the same as clean. 429: the hour's quota is used up.
    print(f"no verdict: {answer.status_code} {answer.text}", file=sys.stderr)
    sys.exit(2)
verdict = answer.json()
print("infected: " + verdict["virusName"] if verdict["infected"] else "clean")
sys.exit(1 if verdict["infected"] else 0)
