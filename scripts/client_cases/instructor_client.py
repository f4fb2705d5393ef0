"""instructor: structured output in every mode for OpenAI, and what it asks again when an answer does not validate."""
import uuid
from collections.abc import Iterable

import instructor
from openai import OpenAI
from pydantic import BaseModel

from common import BASE_URL, KEY, MODEL, Person, RECALLD, cases_in, run


class Trip(BaseModel):
    """A trip to a city."""

    city: str
    days: int


def plain(person):
    return OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0, default_headers=person.headers)


def ask(person):
    return lambda question: plain(person).chat.completions.create(model=MODEL, messages=[{"role": "user", "content": question}])


def structured(mode, response_model=Trip, status="complete"):
    person = Person()
    client = instructor.from_openai(plain(person), mode=mode)
    question = f"{person.statement()} Plan a trip. [[tool]]"
    answer = client.chat.completions.create(
        model=MODEL, response_model=response_model, messages=[{"role": "user", "content": question}], max_retries=0)
    found = list(answer) if response_model is not Trip else [answer]
    assert [trip.model_dump() for trip in found] == [{"city": "Lisbon", "days": 1}], found
    if RECALLD:
        # JSON modes append instructions to the question, which recalld cannot tell from it.
        turns = person.conversations()
        assert [len(turns) for turns in turns] == [1] and turns[0][0]["status"] == status, turns
        assert turns[0][0]["query_text"].startswith(question), turns
    person.recalls(ask(person))


def case_tools():
    structured(instructor.Mode.TOOLS)


def case_tools_strict():
    structured(instructor.Mode.TOOLS_STRICT)


def case_parallel_tools():
    """The call is not forced, so recalld waits for results; what the user said counts at once."""
    structured(instructor.Mode.PARALLEL_TOOLS, Iterable[Trip], status="pending")


def case_json():
    structured(instructor.Mode.JSON)


def case_json_schema():
    structured(instructor.Mode.JSON_SCHEMA)


def case_markdown_json():
    structured(instructor.Mode.MD_JSON)


def case_asks_again_when_an_answer_does_not_validate():
    person = Person()
    client = instructor.from_openai(plain(person), mode=instructor.Mode.TOOLS)
    question = f"{person.statement()} Plan a trip. [[invalid-once {uuid.uuid4()}]]"
    answer = client.chat.completions.create(
        model=MODEL, response_model=Trip, messages=[{"role": "user", "content": question}], max_retries=2)
    assert answer.model_dump() == {"city": "Lisbon", "days": 1}
    person.stored([question])


if __name__ == "__main__":
    run(cases_in(globals()))
