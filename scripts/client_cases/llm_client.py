"""The `llm` command: prompts, and a conversation that goes on."""
import os
import pathlib
import subprocess
import tempfile

from common import BASE_URL, KEY, MODEL, Person, cases_in, reply, run


def llm(person, folder, *arguments):
    """Runs `llm` with recalld as its model and prints what it answers."""
    settings = pathlib.Path(folder, "extra-openai-models.yaml")
    settings.write_text(f"- model_id: r\n  model_name: {MODEL}\n  api_base: {BASE_URL}\n  api_key_name: r\n"
                        f"  headers:\n    X-User-ID: {person.id}\n")
    pathlib.Path(folder, "keys.json").write_text(f'{{"r": "{KEY}"}}')
    environment = {**os.environ, "LLM_USER_PATH": folder}
    done = subprocess.run(["llm", "-m", "r", *arguments], env=environment, capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def case_prompt_and_continuation():
    person = Person()
    with tempfile.TemporaryDirectory() as folder:
        questions = [person.statement(), "What do cats eat?", "How often?"]
        assert llm(person, folder, questions[0]) == reply(questions[0])
        for question in questions[1:]:
            assert llm(person, folder, "-c", question) == reply(question)
        person.stored(questions)
        person.recalls(lambda question: llm(person, folder, question))


def case_without_a_stream():
    person = Person()
    with tempfile.TemporaryDirectory() as folder:
        question = person.statement()
        assert llm(person, folder, "--no-stream", question) == reply(question)
        person.stored([question])


if __name__ == "__main__":
    run(cases_in(globals()))
