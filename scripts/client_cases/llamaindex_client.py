"""LlamaIndex: a chat engine with a bounded memory, structured output, an agent."""
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import Context
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

from common import BASE_URL, KEY, MODEL, Person, cases_in, run


class Trip(BaseModel):
    """A trip to a city."""

    city: str
    days: int


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def chat_model(person, **more):
    return OpenAILike(model=MODEL, api_base=BASE_URL, api_key=KEY, max_retries=0, default_headers=person.headers,
                      is_chat_model=True, is_function_calling_model=True, **more)


def ask(person):
    return lambda question: chat_model(person).chat([ChatMessage(role="user", content=question)])


def case_chat_engine():
    person = Person()
    engine = SimpleChatEngine.from_defaults(llm=chat_model(person), system_prompt="Be brief.")
    questions = [person.statement(), "What do cats eat?", "How often?"]
    for question in questions:
        engine.chat(question)
    person.stored(questions)
    person.recalls(ask(person))


def case_chat_engine_streams():
    person = Person()
    engine = SimpleChatEngine.from_defaults(llm=chat_model(person))
    questions = [person.statement(), "What do cats eat?"]
    for question in questions:
        "".join(engine.stream_chat(question).response_gen)
    person.stored(questions)


def case_bounded_memory():
    person = Person()
    memory = ChatMemoryBuffer.from_defaults(token_limit=80, tokenizer_fn=lambda text: text.split())
    engine = SimpleChatEngine.from_defaults(llm=chat_model(person), memory=memory)
    questions = [person.statement()] + [f"Question number {n} of eight, which is about something else?" for n in range(2, 9)]
    for question in questions:
        engine.chat(question)
    person.stored(questions)
    person.recalls(ask(person))


def case_structured_model():
    person = Person()
    question = f"{person.statement()} Plan a trip."
    answer = chat_model(person).as_structured_llm(Trip).chat([ChatMessage(role="user", content=question)])
    assert answer.raw == Trip(city="Lisbon", days=1), answer.raw
    person.stored([question])
    person.recalls(ask(person))


async def case_agent_with_a_tool():
    person = Person()
    agent = FunctionAgent(tools=[get_weather], llm=chat_model(person), system_prompt="Be brief.")
    context = Context(agent)
    questions = [f"{person.statement()} How is the weather? [[tool]]", "Thanks, and tomorrow?", "And on Friday? [[tool]]"]
    for question in questions:
        await agent.run(user_msg=question, ctx=context)
    person.stored(questions)


if __name__ == "__main__":
    run(cases_in(globals()))
