"""pydantic-ai: message histories, tools, typed output."""
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from common import BASE_URL, KEY, MODEL, Person, cases_in, run


class Trip(BaseModel):
    """A trip to a city."""

    city: str
    days: int


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def agent(person, **more):
    client = AsyncOpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0, default_headers=person.headers)
    return Agent(OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client)), instructions="Be brief.", **more)


def converse(person, questions, **more):
    helper, history = agent(person, **more), []
    for question in questions:
        result = helper.run_sync(question, message_history=history)
        history = result.all_messages()
    return result.output


def case_message_history():
    person = Person()
    questions = [person.statement(), "What do cats eat?", "How often?"]
    converse(person, questions)
    person.stored(questions)
    person.recalls(lambda question: agent(person).run_sync(question))


def case_tool():
    person = Person()
    questions = [f"{person.statement()} How is the weather? [[tool]]", "Thanks, and tomorrow?"]
    converse(person, questions, tools=[get_weather])
    person.stored(questions)


def case_typed_output():
    person = Person()
    question = f"{person.statement()} Plan a trip."
    assert converse(person, [question], output_type=Trip) == Trip(city="Lisbon", days=1)
    person.stored([question])
    person.recalls(lambda question: agent(person).run_sync(question))


def case_typed_output_in_a_conversation():
    """The history then holds the output tool's call and its result before each next question."""
    person = Person()
    questions = [person.statement(), "Plan a trip.", "And another one."]
    assert converse(person, questions, output_type=Trip) == Trip(city="Lisbon", days=1)
    person.stored(questions)


def case_typed_output_after_a_tool():
    person = Person()
    question = f"{person.statement()} Where is it sunny? [[tool]]"
    assert converse(person, [question], tools=[get_weather], output_type=Trip) == Trip(city="Lisbon", days=1)
    person.stored([question])


if __name__ == "__main__":
    run(cases_in(globals()))
