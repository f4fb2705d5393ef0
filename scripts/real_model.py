#!/usr/bin/env python3
"""A conversation that is summarised by a real model, for `scripts/real-model`: real_model.py RECALLD_URL"""

import json
import sys
import time
import urllib.request
import uuid

URL = sys.argv[1]
PATIENCE = 900


def ask(method, path, body=None):
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(URL + path, data=data, method=method, headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)


session = str(uuid.uuid4())
ask("POST", "/api/v1/sessions", {"id": session})
for n in range(1, 21):
    turn = {"query": f"On {n} May I planted {n} roses in bed {n}.", "response": f"Noted: {n} roses in bed {n}."}
    ask("POST", f"/api/v1/sessions/{session}/turns", turn)

# Both kinds of job: what left the session's window, and what left the topic's last messages.
started = time.time()
assert ask("POST", "/chat", {"query": "Are you there?"})["answer"], "chat goes on meanwhile"
while True:
    episodes = ask("GET", f"/api/v1/episodes?session={session}")["episodes"]
    topics = ask("GET", "/api/v1/topics")["topics"]
    jobs = ask("GET", "/api/v1/jobs")
    if episodes and any(topic["summary"] for topic in topics) and jobs["counts"]["queued"] + jobs["counts"]["running"] == 0:
        break
    if time.time() - started > PATIENCE:
        sys.exit(f"not summarised after {PATIENCE} s: {jobs}")
    time.sleep(1)

seconds = time.time() - started
today = ask("GET", "/api/v1/stats")["memory_today"]
print(f"summarised in {seconds:.0f} s; today: {json.dumps(today)}")
for episode in episodes:
    print(f"{episode['level']} {episode['turn_first']}–{episode['turn_last']} by {episode['made_by']}: {episode['summary'][:200]!r}")
for topic in topics:
    print(f"topic {topic['title']!r}: {(topic['summary'] or '')[:200]!r}")
for answer in ask("GET", "/api/v1/jobs/answers")["answers"]:
    print(f"could not be used ({answer['kind']}): {answer['answer'][:300]!r}")
if today["calls"] == 0:
    sys.exit("the model was not asked")
if today["failures"] == 0:
    print("json_schema is honoured end to end, and everything was told by the model")
else:
    print(f"json_schema is honoured end to end; {today['fallbacks']} of the model's answers were no use and the built-in did it")
if today["last_failure"] not in (None, "garbage", "truncated"):
    sys.exit(f"the protocol failed: {today['last_failure']}")
