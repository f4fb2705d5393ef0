//! `recalld chat`: a conversation at the terminal, or one question for each line of a pipe.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::client::{Client, Need, Place, with_client};
use super::failure::{Failure, tell};
use super::lines::{Line, Lines};
use super::output::{self, Colours, NobodyReads, Tint};
use super::question::{Question, reservation, unless_interrupted};
use super::table::counted;
use super::upstream::Upstream;
use super::{Common, session_id};
use crate::id::{Ids, RandomIds, SessionId};

/// Flags of `chat`.
#[derive(Debug, Args)]
pub(super) struct ChatArgs {
    /// The conversation to continue [default: a new one].
    #[arg(long, value_name = "ID", value_parser = session_id)]
    session: Option<SessionId>,
    /// In which role you ask, for the templates.
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Recall nothing from other conversations.
    #[arg(long)]
    alone: bool,
}

const HELP: &str = "\
/session  which conversation this is
/new      begin another one
/help     this
/quit     end; Ctrl-D does the same
Ctrl-C cancels a running answer. Anything else is a question.";

pub(super) fn chat(common: &Common, args: &ChatArgs) -> anyhow::Result<ExitCode> {
    with_client(common, Need::Answers, async |client| {
        let mut talk = Talk::begin(client, common, args).await?;
        let ended = talk.run().await;
        talk.farewell();
        ended.map(|()| ExitCode::SUCCESS)
    })
}

/// What a line means.
#[derive(Debug, PartialEq, Eq)]
enum Input<'a> {
    Nothing,
    Help,
    Session,
    New,
    Quit,
    /// A command nobody knows.
    Unknown(&'a str),
    Question(&'a str),
}

impl<'a> Input<'a> {
    fn read(line: &'a str) -> Self {
        let line = line.trim();
        match line {
            "" => Self::Nothing,
            "/help" | "/?" => Self::Help,
            "/session" => Self::Session,
            "/new" => Self::New,
            "/quit" | "/exit" | "/q" => Self::Quit,
            // A path is not a command: `/etc/hosts has two lines, why?`
            _ if is_command(line) => Self::Unknown(line),
            _ => Self::Question(line),
        }
    }
}

/// A slash and one word.
fn is_command(line: &str) -> bool {
    line.strip_prefix('/').is_some_and(|word| !word.is_empty() && word.chars().all(char::is_alphabetic))
}

struct Talk<'a> {
    client: &'a Client,
    common: &'a Common,
    role: Option<&'a str>,
    alone: bool,
    session: SessionId,
    lines: Lines,
}

impl<'a> Talk<'a> {
    async fn begin(client: &'a Client, common: &'a Common, args: &'a ChatArgs) -> anyhow::Result<Self> {
        // Asked first: a wrong key or a server that is not there is told before anybody types.
        let stats = client.stats().await?;
        let session = args.session.unwrap_or_else(|| RandomIds.session());
        let known = match args.session {
            Some(session) => find(client, session).await?,
            None => None,
        };
        let talk =
            Self { client, common, role: args.role.as_deref(), alone: args.alone, session, lines: Lines::open()? };
        talk.greet(&stats, known.as_ref());
        Ok(talk)
    }

    fn greet(&self, stats: &Value, known: Option<&Value>) {
        let turns = known.and_then(|session| session["turns"].as_u64());
        let state = turns.map_or("new".to_owned(), |turns| format!("continues after {}", counted(turns, "turn")));
        let help = if self.lines.typed { "; /help shows the commands, Ctrl-D ends" } else { "" };
        self.note(&format!("memory   {}", where_it_is(self.client.place())));
        self.note(&format!("model    {}", who_answers(self.client.place(), stats)));
        self.note(&format!("session  {} ({state}){help}", self.session));
    }

    async fn run(&mut self) -> anyhow::Result<()> {
        loop {
            let line = match self.lines.next().await {
                Line::Text(line) => line,
                Line::Interrupted => {
                    self.note("Ctrl-D or /quit ends the conversation");
                    continue;
                }
                Line::End => return Ok(()),
                Line::Failed(reason) => anyhow::bail!("cannot read your line: {reason}"),
            };
            match Input::read(&line) {
                Input::Nothing => {}
                Input::Help => self.note(HELP),
                Input::Session => self.note(&format!("session  {}", self.session)),
                Input::New => self.begin_another(),
                Input::Quit => return Ok(()),
                Input::Unknown(command) => self.note(&format!("there is no command {command}; /help shows them")),
                Input::Question(query) => self.put(query).await?,
            }
        }
    }

    fn begin_another(&mut self) {
        self.session = RandomIds.session();
        self.note(&format!("session  {} (new)", self.session));
    }

    /// Puts a question. A person can try again, so a failure is told and the talk goes on; a script is
    /// stopped by it.
    async fn put(&self, query: &str) -> anyhow::Result<()> {
        let question = Question { query, session: self.session, role: self.role, alone: self.alone };
        match unless_interrupted(self.answer(&question)).await {
            None => {
                output::piece("\n")?;
                self.note("cancelled");
            }
            Some(Err(error)) if self.lines.typed && !error.is::<NobodyReads>() => {
                tell(&error, self.common.json);
            }
            Some(ended) => return ended,
        }
        Ok(())
    }

    async fn answer(&self, question: &Question<'_>) -> anyhow::Result<()> {
        if self.common.json {
            return output::json_line(&self.client.answer(question).await?);
        }
        let answer = self.client.answer_aloud(question, output::piece).await?;
        output::piece(if self.lines.typed { "\n\n" } else { "\n" })?;
        if let Some(reservation) = reservation(&answer) {
            self.note(reservation);
        }
        Ok(())
    }

    fn farewell(&self) {
        let command = continue_command(self.common, self.session);
        self.note(&format!("session  {}; continue with: {command}", self.session));
    }

    /// Something beside the answers. A script that wants JSON finds the session in each answer.
    fn note(&self, text: &str) {
        if !self.common.json {
            output::note(Colours::of(&std::io::stderr()).paint(Tint::Dim, text));
        }
    }
}

/// Looks a session up; one that does not exist will begin with the first question.
async fn find(client: &Client, session: SessionId) -> Result<Option<Value>, Failure> {
    match client.get(&format!("/api/v1/sessions/{session}")).await {
        Ok(session) => Ok(Some(session)),
        Err(Failure::Refused { status: 404, .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn where_it_is(place: &Place) -> String {
    match place {
        Place::Server(url) => format!("the server at {url}"),
        Place::File(data, _) => format!("{} (in process; no server runs)", data.display()),
    }
}

fn who_answers(place: &Place, stats: &Value) -> String {
    let name = stats["model"].as_str().unwrap_or("unknown");
    match place {
        Place::Server(_) => name.to_owned(),
        Place::File(_, choice) => match &choice.upstream {
            Upstream::Builtin => format!("{name}: quotes what was said, no language model ({})", choice.why),
            Upstream::Server { url, .. } => format!("{name} at {url} ({})", choice.why),
        },
    }
}

/// The command that continues a conversation, with the flags that led to it.
pub(super) fn continue_command(common: &Common, session: SessionId) -> String {
    let data = common.data.as_ref().map(|data| data.display().to_string());
    let flags = [("--server", common.server.clone()), ("--data", data), ("--user", common.user.clone())];
    let given = flags.into_iter().filter_map(|(flag, value)| Some(format!(" {flag} {}", quoted(&value?))));
    format!("recalld chat --session {session}{}", given.collect::<String>())
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@+=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_questions_unless_they_are_commands() {
        for (line, input) in [
            ("", Input::Nothing),
            ("  /help ", Input::Help),
            ("/new", Input::New),
            ("/session", Input::Session),
            ("/quit", Input::Quit),
            ("/qiut", Input::Unknown("/qiut")),
            ("/etc/hosts", Input::Question("/etc/hosts")),
            ("/new or old?", Input::Question("/new or old?")),
            (" Waar woon ik? ", Input::Question("Waar woon ik?")),
        ] {
            assert_eq!(Input::read(line), input, "{line:?}");
        }
    }

    #[test]
    fn the_command_that_continues_has_the_flags_that_led_here() {
        let id = SessionId::parse("6f1c9a52-3a5b-4b53-8a86-1f6dfd4f2c11").expect("a UUID");
        let common = Common { data: Some("/my files/r.db".into()), user: Some("ann".into()), ..Common::default() };
        assert_eq!(continue_command(&Common::default(), id), format!("recalld chat --session {id}"));
        assert_eq!(
            continue_command(&common, id),
            format!("recalld chat --session {id} --data '/my files/r.db' --user ann")
        );
    }
}
