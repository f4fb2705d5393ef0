"""The official Python client against recalld: what an application does, and what is remembered of it.

Run by scripts/clients, which says where things are:

    UPSTREAM    the scripted upstream, without /v1
    RECALLD     recalld, without /v1; empty to try the client and this file against the upstream alone
"""
import asyncio
import json
import os
import sys
import time
import traceback
import urllib.error
import urllib.request
import uuid

import openai
from openai import AsyncOpenAI, OpenAI

UPSTREAM, RECALLD = os.environ["UPSTREAM"], os.environ.get("RECALLD", "")
BASE_URL = (RECALLD or UPSTREAM) + "/v1"
KEY = "sk-of-the-client"
TAIL = " 🦊é漢"
PIXEL = ("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5"
         "ErkJggg==")
TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}

client = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0, timeout=30)


# --- Looking at what happened ---------------------------------------------------------------------


def get(url, **headers):
    """Status and JSON of a page."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def upstream_requests(question):
    """The chat requests that reached the model with this in their last message."""
    _, found = get(f"{UPSTREAM}/requests")
    chats = [r for r in found if r["body"] and r["path"] == "/v1/chat/completions"]
    return [r for r in chats if question in json.dumps(r["body"]["messages"][-1], ensure_ascii=False)]


def turns(session, user=None):
    """The turns of a session; none when there is no such session."""
    status, page = get(f"{RECALLD}/api/v1/sessions/{session}/turns?limit=50", **({"X-User-ID": user} if user else {}))
    return page["turns"] if status == 200 else []


def settled(session, user=None):
    """The turns of a session, once none of them is under way."""
    for _ in range(100):
        found = turns(session, user)
        if found and all(turn["status"] != "pending" for turn in found):
            return found
        time.sleep(0.05)
    return found


def remembered(session, *expected, user=None):
    """Exactly these questions and answers, complete, in order, each once."""
    if not RECALLD:
        return
    found = settled(session, user)
    pairs = [(turn["query_text"], turn["response_text"]) for turn in found]
    assert pairs == list(expected), f"{pairs} is not {list(expected)}"
    assert [turn["turn_number"] for turn in found] == list(range(1, len(found) + 1)), found
    assert all(turn["status"] == "complete" for turn in found), found


def new_session():
    return str(uuid.uuid4())


def asked(text, **more):
    return {"model": "scripted", "messages": [{"role": "user", "content": text}], **more}


def in_session(session):
    return {"extra_headers": {"X-Session-ID": session}}


def reply(text):
    return f"Answer to: {text}{TAIL}"


# --- What an application does ---------------------------------------------------------------------


def models_are_listed():
    assert [model.id for model in client.models.list()] == ["scripted", "scripted-mini"]


def a_plain_question():
    session = new_session()
    raw = client.chat.completions.with_raw_response.create(**asked("A plain question"), **in_session(session))
    completion = raw.parse()
    assert completion.choices[0].message.content == reply("A plain question")
    assert completion.usage.total_tokens > 0
    assert completion.model_extra["x_unknown"] == {"kept": True}, "unknown fields of the answer come through"
    if RECALLD:
        assert raw.headers["x-session-id"] == session
        assert raw.headers["x-recalld-status"] == "ok"
        assert turns(session)[0]["id"] == raw.headers["x-recalld-turn"]
    remembered(session, ("A plain question", reply("A plain question")))


def a_stream():
    session = new_session()
    raw = client.chat.completions.with_raw_response.create(
        **asked("A stream", stream=True, stream_options={"include_usage": True}), **in_session(session))
    chunks = list(raw.parse())
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == reply("A stream"), said
    assert chunks[-1].usage.total_tokens > 0 and chunks[-2].choices[0].finish_reason == "stop"
    assert not RECALLD or raw.headers["x-session-id"] == session
    remembered(session, ("A stream", reply("A stream")))


def the_stream_helper():
    session = new_session()
    with client.chat.completions.stream(**asked("Helped along"), **in_session(session)) as stream:
        for _ in stream:
            pass
        assert stream.get_final_completion().choices[0].message.content == reply("Helped along")
    remembered(session, ("Helped along", reply("Helped along")))


async def asynchronously():
    session = new_session()
    async with AsyncOpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0) as a:
        plain = await a.chat.completions.create(**asked("Not now"), **in_session(session))
        assert plain.choices[0].message.content == reply("Not now")
        stream = await a.chat.completions.create(**asked("Nor now", stream=True), **in_session(session))
        said = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        assert said == reply("Nor now")
    remembered(session, ("Not now", reply("Not now")), ("Nor now", reply("Nor now")))


def a_conversation_is_remembered_once():
    """The client sends everything again each time, as most do."""
    session, messages, pairs = new_session(), [{"role": "system", "content": "Be brief."}], []
    for n in range(4):
        messages.append({"role": "user", "content": f"Question {n}"})
        answer = client.chat.completions.create(model="scripted", messages=messages, **in_session(session))
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        pairs.append((f"Question {n}", reply(f"Question {n}")))
    remembered(session, *pairs)


def a_conversation_is_found_by_its_history():
    """No id at all: the next request carries what was said, and that tells which conversation it is."""
    start, sessions = f"Begin {uuid.uuid4()}", []
    messages = [{"role": "user", "content": start}]
    for question in [None, "And then?", "And after that?"]:
        if question:
            messages.append({"role": "user", "content": question})
        raw = client.chat.completions.with_raw_response.create(model="scripted", messages=messages)
        messages.append({"role": "assistant", "content": raw.parse().choices[0].message.content})
        sessions.append(raw.headers.get("x-session-id"))
    if RECALLD:
        assert len(set(sessions)) == 1, sessions
        remembered(sessions[0], *[(q, reply(q)) for q in [start, "And then?", "And after that?"]])


def only_what_is_new():
    """The client sends single questions; the model is shown what was said before."""
    session, name = new_session(), f"Ann-{uuid.uuid4()}"
    client.chat.completions.create(**asked(f"My name is {name}"), **in_session(session))
    second = f"What is my name, {uuid.uuid4()}?"
    client.chat.completions.create(**asked(second), **in_session(session))
    if RECALLD:
        sent = upstream_requests(second)[0]["body"]["messages"]
        assert name in json.dumps(sent[:-1]), sent
    remembered(session, (f"My name is {name}", reply(f"My name is {name}")), (second, reply(second)))


def tools(stream):
    """A call, its result, the answer: three requests' worth of messages, one turn."""
    session, question = new_session(), f"The weather? {uuid.uuid4()}"
    messages = [{"role": "user", "content": f"{question} [[tool]]"}]
    call = first_call(messages, session, stream)
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Lisbon"})
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [call.model_dump(exclude={"index", "parsed_arguments"})]},
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    answer = client.chat.completions.create(model="scripted", messages=messages, tools=[TOOL], **in_session(session))
    assert answer.choices[0].message.content == f"The tool said: sunny{TAIL}"
    remembered(session, (f"{question} [[tool]]", f"The tool said: sunny{TAIL}"))
    if RECALLD:
        _, page = get(f"{RECALLD}/api/v1/sessions/{session}/messages?limit=50")
        assert [m["role"] for m in page["messages"]] == ["user", "assistant", "tool", "assistant"], page


def first_call(messages, session, stream):
    request = dict(model="scripted", messages=messages, tools=[TOOL], **in_session(session))
    if not stream:
        return client.chat.completions.create(**request).choices[0].message.tool_calls[0]
    with client.chat.completions.stream(**request) as events:
        return events.get_final_completion().choices[0].message.tool_calls[0]


def tools_in_one_piece():
    tools(stream=False)


def tools_in_a_stream():
    tools(stream=True)


def pictures():
    session, question = new_session(), f"What is this? {uuid.uuid4()}"
    picture = {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}}
    parts = [{"type": "text", "text": question}, picture]
    answer = client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": parts}], **in_session(session))
    said = f"I see 1 picture(s). Answer to: {question}{TAIL}"
    assert answer.choices[0].message.content == said
    sent = upstream_requests(question)[0]["body"]["messages"][-1]["content"]
    assert picture in sent, "the picture goes through as it is"
    remembered(session, (question, said))


def several_choices():
    session = new_session()
    answer = client.chat.completions.create(**asked("Twice", n=2), **in_session(session))
    assert len(answer.choices) == 2
    remembered(session, ("Twice", reply("Twice")))


# --- What goes wrong ------------------------------------------------------------------------------


def errors_have_their_types():
    for status, kind in [(400, openai.BadRequestError), (401, openai.AuthenticationError), (404, openai.NotFoundError),
                         (429, openai.RateLimitError), (500, openai.InternalServerError)]:
        for request in [asked(f"Go wrong [[error {status}]]"), {**asked("Go wrong"), "model": f"error-{status}"},
                        asked(f"Go wrong [[error {status}]]", stream=True)]:
            error = raised(lambda: client.chat.completions.create(**request))
            assert type(error) is kind, f"{status} became {error!r}"
            assert isinstance(error.body, dict) and error.body["message"], "the error has OpenAI's shape"


def raised(call):
    try:
        call()
    except openai.APIError as error:
        return error
    raise AssertionError("nothing was raised")


def our_own_errors_have_openais_shape():
    if not RECALLD:
        return
    error = raised(lambda: client.chat.completions.create(**asked("Hi"), **in_session("no-uuid")))
    assert type(error) is openai.BadRequestError and error.code == "invalid_session_id", error
    assert set(error.body) >= {"message", "type", "param", "code"}, error.body
    error = raised(lambda: client.chat.completions.create(model="scripted", messages="no list"))
    assert type(error) is openai.BadRequestError, error


def a_retry_is_stored_once():
    patient = client.with_options(max_retries=2)
    for stream in [False, True]:
        session, question = new_session(), f"Try again [[fail-once {uuid.uuid4()}]]"
        answer = patient.chat.completions.create(**asked(question, stream=stream), **in_session(session))
        if stream:
            assert "".join(c.choices[0].delta.content or "" for c in answer if c.choices) == reply("Try again")
        else:
            assert answer.choices[0].message.content == reply("Try again")
        counts = [r["headers"].get("x-stainless-retry-count") for r in upstream_requests(question)]
        assert counts == ["0", "1"], counts
        remembered(session, (question, reply("Try again")))


def an_idempotent_request_is_answered_once():
    if not RECALLD:
        return
    session, question = new_session(), f"Only once {uuid.uuid4()}"
    headers = {"X-Session-ID": session, "Idempotency-Key": str(uuid.uuid4())}
    answers = [client.chat.completions.create(**asked(question), extra_headers=headers) for _ in range(2)]
    assert answers[0].choices[0].message.content == answers[1].choices[0].message.content
    assert len(upstream_requests(question)) == 1
    remembered(session, (question, reply(question)))
    other = raised(lambda: client.chat.completions.create(**asked("Something else"), extra_headers=headers))
    assert type(other) is openai.ConflictError, other


def an_answer_that_breaks_off_is_partial():
    session = new_session()
    said = ""
    try:
        for chunk in client.chat.completions.create(**asked("Break [[break]]", stream=True), **in_session(session)):
            said += chunk.choices[0].delta.content or "" if chunk.choices else ""
    except Exception:  # noqa: BLE001  What the client makes of it is its own affair.
        pass
    assert said == "Answer to:"[: len(said)] and said, said
    if RECALLD:
        turn, = settled(session)
        assert turn["status"] == "partial" and turn["response_text"].startswith("Answer"), turn


def a_client_that_leaves_costs_only_itself():
    session = new_session()
    stream = client.chat.completions.create(**asked("Leave early [[slow]]", stream=True), **in_session(session))
    next(iter(stream))
    stream.close()
    if RECALLD:
        turn, = settled(session)
        assert turn["status"] in ("partial", "failed"), turn
    a_plain_question()


# --- Many at once, and who is who -----------------------------------------------------------------


async def many_at_once():
    session, many = new_session(), 16
    async with AsyncOpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0) as a:
        async def ask(n, stream):
            where = in_session(session if n < many else new_session())
            answer = await a.chat.completions.create(**asked(f"Number {n}", stream=stream), **where)
            if stream:
                return "".join([c.choices[0].delta.content or "" async for c in answer if c.choices])
            return answer.choices[0].message.content
        answers = await asyncio.gather(*[ask(n, n % 2 == 1) for n in range(2 * many)])
    assert answers == [reply(f"Number {n}") for n in range(2 * many)]
    if RECALLD:
        found = settled(session)
        assert [turn["turn_number"] for turn in found] == list(range(1, many + 1)), found
        assert sorted(t["query_text"] for t in found) == sorted(f"Number {n}" for n in range(many))


def unknown_fields_go_through_and_ours_do_not():
    question, odd = f"Odd {uuid.uuid4()}", {"deep": [1, 2.5, "é", None, True], "": {}}
    client.chat.completions.create(
        **asked(question, user="ann"), extra_headers={"X-User-ID": "ann", "Cookie": "a=b", "X-Recalld-Mode": "active"},
        extra_body={"frobnicate": odd, "session_id": "odd", "user_id": "ann", "memory": {"mode": "active"}})
    sent, = upstream_requests(question)
    assert sent["body"]["frobnicate"] == odd and sent["body"]["user"] == "ann"
    assert sent["headers"]["authorization"] == f"Bearer {KEY}", "no key of ours is set, so the client's goes along"
    if RECALLD:
        assert not {"session_id", "user_id", "memory"} & set(sent["body"]), sent["body"].keys()
        assert not {"cookie", "x-user-id", "x-recalld-mode", "x-session-id"} & set(sent["headers"]), sent["headers"]


def people_are_kept_apart():
    if not RECALLD:
        return
    session = new_session()
    for user in ["ann", "bob"]:
        client.chat.completions.create(**asked(f"I am {user}", user=user), **in_session(session))
    for user in ["ann", "bob"]:
        remembered(session, (f"I am {user}", reply(f"I am {user}")), user=user)
    assert turns(session, "eve") == []


def a_conversation_may_have_any_name():
    if not RECALLD:
        return
    name, ids = f"support {uuid.uuid4()}", set()
    for question in ["First", "Second"]:
        raw = client.chat.completions.with_raw_response.create(**asked(question), extra_body={"session_id": name})
        ids.add(raw.headers["x-session-id"])
    session, = ids
    assert uuid.UUID(session).version == 5
    remembered(session, ("First", reply("First")), ("Second", reply("Second")))


def what_should_leave_no_trace_leaves_none():
    if not RECALLD:
        return
    before = get(f"{RECALLD}/api/v1/stats")[1]["turns"]
    title = "### Task:\nGenerate a concise title summarizing the chat history."
    for status, text, headers in [
        ("off", "Temporary", {"X-OpenWebUI-Chat-Id": "local:1"}), ("off", "Off", {"X-Recalld-Mode": "off"}),
        ("task", "Anything", {"X-Recalld-Task": "title_generation"}), ("task", title, {}),
    ]:
        raw = client.chat.completions.with_raw_response.create(**asked(text), extra_headers=headers)
        assert raw.headers["x-recalld-status"] == status, (text, dict(raw.headers))
        sent = upstream_requests(text.split("\n")[-1])[-1]["body"]["messages"]
        assert sent == [{"role": "user", "content": text}], "forwarded untouched"
    assert get(f"{RECALLD}/api/v1/stats")[1]["turns"] == before


CASES = [
    models_are_listed, a_plain_question, a_stream, the_stream_helper, asynchronously,
    a_conversation_is_remembered_once, a_conversation_is_found_by_its_history, only_what_is_new, tools_in_one_piece,
    tools_in_a_stream, pictures, several_choices, errors_have_their_types, our_own_errors_have_openais_shape,
    a_retry_is_stored_once, an_idempotent_request_is_answered_once, an_answer_that_breaks_off_is_partial,
    a_client_that_leaves_costs_only_itself, many_at_once, unknown_fields_go_through_and_ours_do_not,
    people_are_kept_apart, a_conversation_may_have_any_name, what_should_leave_no_trace_leaves_none,
]


def main():
    wanted, failed = sys.argv[1:], 0
    print(f"Python client {openai.__version__} at {BASE_URL}")
    for case in CASES:
        if wanted and case.__name__ not in wanted:
            continue
        try:
            asyncio.run(case()) if asyncio.iscoroutinefunction(case) else case()
            print(f"  ok      {case.__name__.replace('_', ' ')}")
        except Exception:  # noqa: BLE001  One failing case must not hide the others.
            failed += 1
            print(f"  FAILED  {case.__name__.replace('_', ' ')}\n{traceback.format_exc(limit=-2, chain=False)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
