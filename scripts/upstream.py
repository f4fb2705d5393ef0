#!/usr/bin/env python3
"""An OpenAI-compatible model server that says what it is told, for trying clients and recalld against it.

    scripts/upstream.py [--port N]       prints `upstream http://127.0.0.1:N/v1` and serves until it is ended

The end of the last user message tells it what to do; without such a word it answers `Answer to: <last line> 🦊é漢`:

    [[error 429]]        answers with this status (so does a model named `error-429`)
    [[fail-once KEY]]    answers 500 the first time it sees KEY, then as usual
    [[tool]]             calls the first tool it is given; when the result comes, says what it was
    [[invalid-once KEY]] the first time it sees KEY, fills a schema with values of the wrong type
    [[break]]            breaks off in the middle of the answer
    [[slow]]             takes two seconds over the answer

Where the request forces a tool call or asks for JSON, it answers with values that fit the schema: `Lisbon` for
each text, 1 for each number.

Streams come in pieces of a few bytes that end anywhere, in the middle of an emoji too. Pictures are counted.
GET /requests shows every request that came (`?since=N` the later ones), DELETE /requests forgets them.
"""
import argparse
import json
import re
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

MODELS = ["scripted", "scripted-mini"]
DIRECTIVE = re.compile(r"\[\[([a-z-]+)(?: ([^\[\]]*))?\]\]\s*$")
ERRORS = {
    400: ("invalid_request_error", "bad_request"),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "forbidden"),
    404: ("invalid_request_error", "model_not_found"),
    422: ("invalid_request_error", "unprocessable"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    500: ("server_error", "server_error"),
    503: ("server_error", "overloaded"),
}
# How many bytes each piece of a stream has, in turn.
PIECES = [1, 2, 3, 5, 7, 11, 64, 2]
# What every answer ends with, so that pieces of a stream end inside a letter.
FLOURISH = " 🦊é漢"

lock = threading.Lock()
requests = []
seen_keys = set()


# --- What to answer -------------------------------------------------------------------------------


def text_of(content):
    """The words of a message: a string, or the text parts of a list."""
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")
    return content or ""


def last_question(messages):
    """The last user message: its last line without directive, the directive and its argument."""
    text = next((text_of(m.get("content")) for m in reversed(messages) if m.get("role") == "user"), "")
    found = DIRECTIVE.search(text)
    plain = (text[: found.start()] if found else text).strip().split("\n")[-1]
    return plain, found[1] if found else "", (found[2] or "") if found else ""


def images(messages):
    """How many pictures the last user message carries."""
    last = next((m.get("content") for m in reversed(messages) if m.get("role") == "user"), "")
    return sum(part.get("type") == "image_url" for part in last) if isinstance(last, list) else 0


def first_time(key):
    with lock:
        first = key not in seen_keys
        seen_keys.add(key)
    return first


def failure(body, directive, argument):
    """The status to fail with, or None."""
    named = re.fullmatch(r"error-(\d{3})", str(body.get("model", "")))
    if named:
        return int(named[1])
    if directive == "error":
        return int(argument)
    if directive == "fail-once":
        return 500 if first_time(argument) else None
    return None


def fill(schema, definitions, valid=True):
    """A value that fits a JSON schema, or one whose numbers are words."""
    if "$ref" in schema:
        return fill(definitions[schema["$ref"].split("/")[-1]], definitions, valid)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return fill(schema[several][0], definitions, valid)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type")
    if kind == "object":
        return {name: fill(part, definitions, valid) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [fill(schema.get("items", {}), definitions, valid)]
    if kind in ("integer", "number"):
        return 1 if valid else "one"
    return {"boolean": True, "null": None}.get(kind, "Lisbon")


def filled(schema, directive, argument):
    valid = directive != "invalid-once" or not first_time(argument)
    return fill(schema, {**schema.get("$defs", {}), **schema.get("definitions", {})}, valid)


def chosen_function(body, directive, has_results):
    """The function that this answer calls, if any."""
    functions = [tool["function"] for tool in body.get("tools") or [] if tool.get("type") == "function"]
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and "function" in choice:
        return next(function for function in functions if function["name"] == choice["function"]["name"])
    wants_tool = directive == "tool" and not has_results
    if functions and choice == "required":
        return functions[0 if wants_tool else -1]
    return functions[0] if functions and wants_tool else None


def structured_text(body, question_text, directive, argument):
    """JSON as text, where the request asks for it."""
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        return json.dumps(filled(wanted["json_schema"]["schema"], directive, argument))
    if wanted.get("type") == "json_object" or "```json" in question_text:
        value = json.dumps({"city": "Lisbon", "days": 1})
        return value if wanted else f"```json\n{value}\n```"
    return None


def answer(body):
    """What the model says: text and tool calls."""
    messages = body["messages"]
    question, directive, argument = last_question(messages)
    results = []
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        results.insert(0, text_of(message.get("content")))
    function = chosen_function(body, directive, bool(results))
    if function:
        arguments = filled(function.get("parameters", {}), directive, argument)
        call = {"name": function["name"], "arguments": json.dumps(arguments)}
        return None, [{"id": f"call_{uuid.uuid4().hex[:12]}", "type": "function", "function": call}]
    structured = structured_text(body, text_of(messages[-1].get("content")), directive, argument)
    if structured:
        return structured, None
    if results:
        return "The tool said: " + "; ".join(results) + FLOURISH, None
    if images(messages):
        return f"I see {images(messages)} picture(s). Answer to: {question}{FLOURISH}", None
    return f"Answer to: {question}{FLOURISH}", None


def usage(body, text):
    """Counts words: enough for clients that add them up."""
    asked = sum(len(text_of(m.get("content")).split()) for m in body["messages"])
    said = len((text or "call").split())
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


# --- How it is sent -------------------------------------------------------------------------------


def completion(body):
    text, calls = answer(body)
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    reason = "tool_calls" if calls else "stop"
    choices = [{"index": n, "message": message, "finish_reason": reason} for n in range(body.get("n") or 1)]
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"], "choices": choices,
            "usage": usage(body, text), "x_unknown": {"kept": True}}


def events(body):
    """The chunks of a streamed answer, each a dictionary."""
    text, calls = answer(body)
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}

    def chunk(delta, reason=None):
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": ""})
    if calls:
        function = calls[0]["function"]
        head = {**calls[0], "index": 0, "function": {"name": function["name"], "arguments": ""}}
        yield chunk({"tool_calls": [head]})
        for at in range(0, len(function["arguments"]), 3):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": function["arguments"][at:at + 3]}}]})
    else:
        for word in re.findall(r"\s*\S+", text):
            yield chunk({"content": word})
    yield chunk({}, "tool_calls" if calls else "stop")
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**base, "choices": [], "usage": usage(body, text)}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        """Says nothing; /requests tells."""

    def do_GET(self):
        url = urlparse(self.path)
        if url.path == "/requests":
            since = int(parse_qs(url.query).get("since", ["0"])[0])
            with lock:
                return self.json(200, requests[since:])
        self.note(None)
        if url.path == "/v1/models":
            data = [{"id": name, "object": "model", "created": 1, "owned_by": "nobody"} for name in MODELS]
            return self.json(200, {"object": "list", "data": data})
        return self.error(404)

    def do_DELETE(self):
        with lock:
            requests.clear()
        self.json(200, {})

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            body = json.loads(raw)
        except ValueError:
            return self.error(400)
        self.note(body)
        if urlparse(self.path).path != "/v1/chat/completions":
            return self.error(404)
        _, directive, argument = last_question(body["messages"])
        status = failure(body, directive, argument)
        if status:
            return self.error(status)
        if directive == "slow":
            time.sleep(2)
        return self.stream(body, directive) if body.get("stream") else self.whole(body, directive)

    def note(self, body):
        """Remembers what came, for whoever asks."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        with lock:
            requests.append({"method": self.command, "path": self.path, "headers": headers, "body": body})

    def json(self, status, value, headers=()):
        body = json.dumps(value, ensure_ascii=False).encode()
        self.send_response(status)
        for name, text in [("content-type", "application/json"), ("content-length", str(len(body))), *headers]:
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def error(self, status):
        kind, code = ERRORS.get(status, ("server_error", "server_error"))
        error = {"message": f"scripted error {status}", "type": kind, "param": None, "code": code}
        self.json(status, {"error": error}, [("retry-after", "0")] if status in (429, 503) else [])

    def whole(self, body, directive):
        if directive != "break":
            return self.json(200, completion(body))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b'{"id": "chatcmpl-1", ')
        self.close_connection = True

    def stream(self, body, directive):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        lines = [f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events(body)] + ["data: [DONE]\n\n"]
        whole = "".join(lines).encode()
        if directive == "break":
            # To the end of the third event, so that something was said.
            whole = "".join(lines[:3]).encode()
        try:
            self.pieces(whole, pause=0.05 if directive == "slow" else 0)
            if directive != "break":
                self.wfile.write(b"0\r\n\r\n")
        except OSError:
            # The client has gone, which is its right.
            pass
        if directive == "break":
            self.close_connection = True

    def pieces(self, data, pause):
        at = turn = 0
        while at < len(data):
            size = PIECES[turn % len(PIECES)]
            piece = data[at:at + size]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
            at, turn = at + size, turn + 1
            if pause:
                time.sleep(pause)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    # Many clients may knock at once.
    request_queue_size = 256


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    server = Server(("127.0.0.1", parser.parse_args().port), Handler)
    print(f"upstream http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
