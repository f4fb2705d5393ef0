"""LangChain: chat histories, trimmed histories, structured output in its three methods, agents."""
from langchain.agents import create_agent
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, trim_messages
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field

from common import BASE_URL, KEY, MODEL, Person, cases_in, reply, run


class Trip(BaseModel):
    """A trip to a city."""

    city: str = Field(description="The city")
    days: int = Field(description="How many days")


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def chat_model(person, **more):
    return ChatOpenAI(model=MODEL, base_url=BASE_URL, api_key=KEY, max_retries=0, default_headers=person.headers, **more)


def case_history_is_sent_again():
    person = Person()
    histories = {}
    chain = RunnableWithMessageHistory(chat_model(person), lambda name: histories.setdefault(name, InMemoryChatMessageHistory()))
    questions = [person.statement(), "What do cats eat?", "How often?"]
    for question in questions:
        answer = chain.invoke([HumanMessage(question)], config={"configurable": {"session_id": "s"}})
        assert answer.content == reply(question), answer.content
    person.stored(questions)
    person.recalls(lambda question: chat_model(person).invoke(question))


def case_history_is_streamed():
    person = Person()
    messages, questions = [SystemMessage("Be brief.")], [person.statement(), "And what else?"]
    for question in questions:
        messages.append(HumanMessage(question))
        text = "".join(chunk.content for chunk in chat_model(person).stream(messages))
        assert text == reply(question), text
        messages.append(AIMessage(text))
    person.stored(questions)


def case_trimmed_history():
    person = Person()
    questions = [person.statement()] + [f"Question number {n} of eight?" for n in range(2, 9)]
    messages = [SystemMessage("Be brief.")]
    for question in questions:
        messages.append(HumanMessage(question))
        shown = trim_messages(messages, max_tokens=6, token_counter=len, strategy="last", start_on="human", include_system=True)
        messages.append(chat_model(person).invoke(shown))
    person.stored(questions)
    person.recalls(lambda question: chat_model(person).invoke(question))


def structured(method):
    person = Person()
    model = chat_model(person).with_structured_output(Trip, method=method)
    question = f"{person.statement()} Plan a trip as JSON."
    assert model.invoke(question) == Trip(city="Lisbon", days=1)
    person.stored([question])
    person.recalls(lambda question: chat_model(person).invoke(question))


def case_structured_output_by_json_schema():
    structured("json_schema")


def case_structured_output_by_function_calling():
    structured("function_calling")


def case_structured_output_by_json_mode():
    structured("json_mode")


def case_structured_output_in_a_conversation():
    person = Person()
    model = chat_model(person).with_structured_output(Trip, method="function_calling", include_raw=True)
    questions = [person.statement(), "Plan a trip.", "And another one."]
    messages = []
    for question in questions:
        messages.append(HumanMessage(question))
        answer = model.invoke(messages)["parsed"]
        # The history holds an answer that recalld never saw, so each request is a conversation of its own.
        messages.append(AIMessage(answer.model_dump_json()))
    person.stored(*[[question] for question in questions], first_number=None)


def case_agent_with_a_tool():
    person = Person()
    agent = create_agent(chat_model(person), [get_weather], system_prompt="Be brief.", checkpointer=InMemorySaver())
    questions = [f"{person.statement()} How is the weather? [[tool]]", "Thanks, and tomorrow?", "And on Friday? [[tool]]"]
    for question in questions:
        agent.invoke({"messages": [HumanMessage(question)]}, config={"configurable": {"thread_id": "t"}})
    person.stored(questions)
    person.recalls(lambda question: chat_model(person).invoke(question))


def case_agent_with_structured_response():
    person = Person()
    agent = create_agent(chat_model(person), [get_weather], response_format=Trip)
    question = f"{person.statement()} Where shall I go? [[tool]]"
    result = agent.invoke({"messages": [HumanMessage(question)]})
    assert result["structured_response"] == Trip(city="Lisbon", days=1), result
    person.stored([question])


if __name__ == "__main__":
    run(cases_in(globals()))
