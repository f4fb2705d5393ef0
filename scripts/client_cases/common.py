"""What the clients' cases share: a person of their own for each case, and a look at what recalld stored for them.

scripts/clients sets the environment:

    UPSTREAM    the scripted upstream, without /v1
    RECALLD     recalld, without /v1; empty to try the client and its cases against the upstream alone
"""
import inspect
import json
import os
import sys
import time
import traceback
import urllib.request
import uuid

UPSTREAM, RECALLD = os.environ["UPSTREAM"], os.environ.get("RECALLD", "")
BASE_URL = (RECALLD or UPSTREAM) + "/v1"
KEY = "sk-of-the-client"
MODEL = "scripted"
# What every answer of the scripted model ends with.
TAIL = " 🦊é漢"


def reply(text):
    """The scripted model's answer to a plain question."""
    return f"Answer to: {text}{TAIL}"


def get(url, **headers):
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


class Person:
    """A user of recalld with an id and a word that no other case uses."""

    def __init__(self):
        self.id = f"person-{uuid.uuid4()}"
        self.headers = {"X-User-ID": self.id}
        self.word = f"zeb{uuid.uuid4().hex[:10]}"

    def statement(self):
        """Something about this person that a later conversation can ask for."""
        return f"My cat is called {self.word}."

    def conversations(self):
        """The turns of each of this person's conversations, oldest first, once none is pending."""
        for _ in range(100):
            listed = get(f"{RECALLD}/api/v1/sessions?limit=50", **self.headers)["sessions"]
            listed.sort(key=lambda session: session["created_at"])
            found = [get(f"{RECALLD}/api/v1/sessions/{session['id']}/turns?limit=50", **self.headers)["turns"] for session in listed]
            if all(turn["status"] != "pending" for turns in found for turn in turns):
                return found
            time.sleep(0.02)
        return found

    def stored(self, *expected, first_number=1):
        """Exactly these questions, one list a conversation: complete, in order, numbered, each once. Without a first number,
        numbers may begin anywhere: those of a history that recalld does not know are kept free."""
        if not RECALLD:
            return
        found = self.conversations()
        questions = [[turn["query_text"] for turn in turns] for turns in found]
        assert questions == [list(conversation) for conversation in expected], f"stored: {json.dumps(questions, indent=1)}"
        states = {turn["status"] for turns in found for turn in turns}
        assert states <= {"complete"}, f"states: {states}"
        for turns in found:
            first = first_number or turns[0]["turn_number"]
            assert [turn["turn_number"] for turn in turns] == list(range(first, first + len(turns))), turns
        answers = [turn["response_text"] for turns in found for turn in turns]
        assert all(answers), f"a turn without an answer: {answers}"

    def sent(self, question):
        """The messages of the requests that reached the model with this in their last user message."""
        found = [request["body"]["messages"] for request in get(f"{UPSTREAM}/requests") if request["body"]]
        return [messages for messages in found
                if question in json.dumps([m for m in messages if m["role"] == "user"][-1:], ensure_ascii=False)]

    def recalls(self, ask):
        """A new conversation is given what this person said in an earlier one."""
        question = f"What is my cat called, {uuid.uuid4().hex[:8]}?"
        ask(question)
        if RECALLD:
            sent = json.dumps(self.sent(question)[-1], ensure_ascii=False)
            assert self.word in sent, f"not recalled: {sent}"


def run(cases):
    """Runs the cases, each alone, and ends the process with 1 if one failed."""
    failed = 0
    for name, case in cases.items():
        try:
            result = case()
            if inspect.isawaitable(result):
                import asyncio
                asyncio.run(result)
            print(f"ok    {name}", flush=True)
        except Exception:
            failed += 1
            print(f"FAIL  {name}\n{traceback.format_exc(limit=-4)}", flush=True)
    print(f"{len(cases) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


def cases_in(module):
    """The functions of a module whose names begin with `case_`, by what they show."""
    found = {name: value for name, value in module.items() if name.startswith("case_")}
    return {name.removeprefix("case_").replace("_", " "): value for name, value in found.items()}
