"""LiteLLM as a library: plain, streamed, with tools, with structured output."""
import json
import os

# Otherwise it fetches a table of prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from pydantic import BaseModel

from common import BASE_URL, KEY, MODEL, Person, cases_in, reply, run

litellm.telemetry = False
litellm.suppress_debug_info = True
TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


class Trip(BaseModel):
    """A trip to a city."""

    city: str
    days: int


def complete(person, messages, **more):
    return litellm.completion(model=f"openai/{MODEL}", api_base=BASE_URL, api_key=KEY, num_retries=0, messages=messages,
                              extra_headers=person.headers, **more)


def user(text):
    return {"role": "user", "content": text}


def ask(person):
    return lambda question: complete(person, [user(question)])


def case_history_is_sent_again():
    person = Person()
    messages, questions = [], [person.statement(), "What do cats eat?", "How often?"]
    for question in questions:
        messages.append(user(question))
        answer = complete(person, messages).choices[0].message
        assert answer.content == reply(question)
        messages.append(answer)
    person.stored(questions)
    person.recalls(ask(person))


def case_stream():
    person = Person()
    question = person.statement()
    chunks = complete(person, [user(question)], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == reply(question)
    person.stored([question])


def case_tools():
    person = Person()
    questions = [f"{person.statement()} How is the weather? [[tool]]", "And tomorrow?"]
    messages = [user(questions[0])]
    call = complete(person, messages, tools=[TOOL]).choices[0].message
    assert json.loads(call.tool_calls[0].function.arguments) == {"city": "Lisbon"}
    messages += [call, {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "sunny"}]
    messages += [complete(person, messages, tools=[TOOL]).choices[0].message, user(questions[1])]
    complete(person, messages, tools=[TOOL])
    person.stored(questions)


def case_structured_output():
    person = Person()
    question = f"{person.statement()} Plan a trip."
    answer = complete(person, [user(question)], response_format=Trip).choices[0].message.content
    assert Trip.model_validate_json(answer) == Trip(city="Lisbon", days=1)
    person.stored([question])


def case_forced_tool():
    person = Person()
    question = f"{person.statement()} How is the weather?"
    choice = {"type": "function", "function": {"name": "get_weather"}}
    assert complete(person, [user(question)], tools=[TOOL], tool_choice=choice).choices[0].message.tool_calls
    person.stored([question])
    person.recalls(ask(person))


if __name__ == "__main__":
    run(cases_in(globals()))
