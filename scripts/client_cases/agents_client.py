"""The OpenAI Agents SDK over chat completions: sessions, tools, structured output."""
from agents import Agent, OpenAIChatCompletionsModel, Runner, SQLiteSession, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel

from common import BASE_URL, KEY, MODEL, Person, cases_in, run

set_tracing_disabled(True)


class Trip(BaseModel):
    """A trip to a city."""

    city: str
    days: int


@function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def agent(person, **more):
    client = AsyncOpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0, default_headers=person.headers)
    model = OpenAIChatCompletionsModel(model=MODEL, openai_client=client)
    return Agent(name="Helper", instructions="Be brief.", model=model, **more)


async def case_session():
    person = Person()
    session = SQLiteSession(person.id)
    questions = [person.statement(), "What do cats eat?", "How often?"]
    for question in questions:
        await Runner.run(agent(person), question, session=session)
    person.stored(questions)


async def case_tool():
    person = Person()
    session = SQLiteSession(person.id)
    questions = [f"{person.statement()} How is the weather? [[tool]]", "Thanks, and tomorrow?", "And on Friday? [[tool]]"]
    for question in questions:
        await Runner.run(agent(person, tools=[get_weather]), question, session=session)
    person.stored(questions)


async def case_stream():
    person = Person()
    question = f"{person.statement()} How is the weather? [[tool]]"
    result = Runner.run_streamed(agent(person, tools=[get_weather]), question)
    async for _ in result.stream_events():
        pass
    assert "sunny in Lisbon" in result.final_output, result.final_output
    person.stored([question])


async def case_structured_output():
    person = Person()
    question = f"{person.statement()} Plan a trip."
    result = await Runner.run(agent(person, output_type=Trip), question)
    assert result.final_output == Trip(city="Lisbon", days=1)
    person.stored([question])


def case_recall():
    person = Person()
    Runner.run_sync(agent(person), person.statement())
    person.recalls(lambda question: Runner.run_sync(agent(person), question))


if __name__ == "__main__":
    run(cases_in(globals()))
