//! `recalld ask`: one question, one answer.

use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::chat::continue_command;
use super::client::{Client, Need, with_client};
use super::output::{self, Colours, Tint};
use super::question::{Question, reservation, unless_interrupted};
use super::{Common, session_id};
use crate::id::{Ids, RandomIds, SessionId};

/// What a shell expects of a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Flags of `ask`.
#[derive(Debug, Args)]
pub(super) struct AskArgs {
    /// The question; `-` reads it from stdin.
    #[arg(value_name = "QUESTION")]
    question: String,
    /// The conversation to continue [default: a new one].
    #[arg(long, value_name = "ID", value_parser = session_id)]
    session: Option<SessionId>,
    /// In which role you ask, for the templates.
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Print the answer when it is whole, not as it comes.
    #[arg(long)]
    no_stream: bool,
}

pub(super) fn ask(common: &Common, args: &AskArgs) -> anyhow::Result<ExitCode> {
    let query = match args.question.as_str() {
        "-" => read_stdin()?,
        question => question.to_owned(),
    };
    with_client(common, Need::Answers, async |client| {
        let session = args.session.unwrap_or_else(|| RandomIds.session());
        let question = Question { query: &query, session, role: args.role.as_deref(), alone: false };
        let aloud = std::io::stdout().is_terminal() && !args.no_stream;
        match unless_interrupted(put(client, common, &question, aloud)).await {
            Some(ended) => ended.map(|()| ExitCode::SUCCESS),
            None => {
                output::note("");
                Ok(INTERRUPTED.into())
            }
        }
    })
}

async fn put(client: &Client, common: &Common, question: &Question<'_>, aloud: bool) -> anyhow::Result<()> {
    if common.json {
        return output::json(&client.answer(question).await?);
    }
    let answer = if aloud {
        client.answer_aloud(question, output::piece).await?
    } else {
        let answer = client.answer(question).await?;
        output::piece(answer["answer"].as_str().context("the server's answer has no text")?)?;
        answer
    };
    output::piece("\n")?;
    reservation(&answer).into_iter().for_each(output::note);
    // A person may want to go on; a script asks for --json.
    if std::io::stderr().is_terminal() && std::io::stdout().is_terminal() {
        let hint = format!("continue with: {}", continue_command(common, question.session));
        output::note(Colours::of(&std::io::stderr()).paint(Tint::Dim, &hint));
    }
    Ok(())
}

fn read_stdin() -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read the question from stdin")?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}
