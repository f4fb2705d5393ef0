//! `recalld bench followups`: whether a follow-up, which says little by itself, finds what it is about.
//!
//! The pool is every raw turn of every dialog, in one memory with a session for each dialog. A follow-up is asked with
//! the dialog so far as the running conversation; a hit is a turn of the right dialog that is older than the last two,
//! which the model would be shown anyway. Of the own dialog those two, and what comes later, are passed over.

mod dialogs;

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use serde::Serialize;

use self::dialogs::{Dialog, Item, read};
use super::chats::Said;
use super::score::RANKED_MAX;
use super::sheet::{Cell, Sheet};
use super::stage::{Kind, Stage, Told, VectorArgs, weights};
use super::{progress, title};
use crate::memory::Memory;
use crate::message::Role;
use crate::recall::Ask;

/// Flags of `bench followups`.
#[derive(Debug, Args)]
pub(crate) struct FollowupsArgs {
    /// Dialogs, as CANARD or CAsT has them.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where the rankings go, a line of JSON for each question.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    vectors: VectorArgs,
    /// The kind of chat.
    #[arg(long, value_enum, default_value = "auto")]
    profile: Kind,
    /// Weights to use [default: those that ship].
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
}

/// A line of the run file.
#[derive(Serialize)]
struct RunLine<'a> {
    dialog: &'a str,
    n: usize,
    ranked: Vec<String>,
}

/// A turn of the pool: which dialog, and which question of it, counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PoolTurn {
    dialog: usize,
    n: usize,
}

/// What is made of a follow-up before it is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Completed from the running conversation, as the server does.
    Completed,
    /// The bare question.
    Raw,
    /// The bare question with the turn before it.
    WithPrevious,
    /// What a person made of it: no product has that.
    Rewritten,
}

impl Way {
    const ALL: [Self; 4] = [Self::Completed, Self::Raw, Self::WithPrevious, Self::Rewritten];

    fn name(self) -> &'static str {
        match self {
            Self::Completed => "recalld: completed from the running conversation",
            Self::Raw => "raw question",
            Self::WithPrevious => "raw question, previous turn appended",
            Self::Rewritten => "with the gold rewrite",
        }
    }

    fn ask(self, dialog: &Dialog, item: &Item) -> Ask {
        let before = dialog.before(item.n);
        let question = match self {
            Self::Completed | Self::Raw => item.question.clone(),
            Self::Rewritten => item.rewrite.clone(),
            Self::WithPrevious => {
                let previous = &dialog.turns[item.n - 2];
                let answer = previous.answer.as_deref().unwrap_or_default();
                format!("{} {} {answer}", item.question, previous.question)
            }
        };
        let running = if self == Self::Completed { before } else { Vec::new() };
        Ask { question, running: Some(running), ranked_max: RANKED_MAX, ..Ask::default() }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Hits {
    first: usize,
    five: usize,
    changed: usize,
}

pub(crate) async fn run(args: &FollowupsArgs) -> anyhow::Result<Vec<Sheet>> {
    let dialogs = read(&args.file)?;
    let pool = pool(&dialogs);
    let scored: usize = dialogs.iter().map(|dialog| dialog.items.len()).sum();
    ensure!(scored > 0, "no question of {} is a follow-up that can be scored", args.file.display());
    let stage = Stage::open(&args.vectors).await?;
    let memory = stage.memory(weights(args.weights.as_deref())?);
    let messages: Vec<Said> = pool.iter().map(|(_, said)| said.clone()).collect();
    let told = stage.tell(&memory, "everybody", &messages).await?;
    let asking = Asking { args, memory: &memory, told: &told, pool: &pool };

    let mut out = args.out.as_ref().map(|path| std::fs::File::create(path).map(BufWriter::new)).transpose()?;
    let mut hits: HashMap<&str, Hits> = HashMap::new();
    let bar = progress("asking", "follow-ups", scored)?;
    for (n, dialog) in dialogs.iter().enumerate() {
        for item in &dialog.items {
            for way in Way::ALL {
                let (ranked, completed) = asking.ranked(way, dialog, item).await?;
                let (first, five) = hit(&ranked, n, item.n);
                let hits = hits.entry(way.name()).or_default();
                hits.first += usize::from(first);
                hits.five += usize::from(five);
                hits.changed += usize::from(completed);
                if let Some(out) = out.as_mut().filter(|_| way == Way::Completed) {
                    let name = |turn: &PoolTurn| format!("{}#{}", dialogs[turn.dialog].id, turn.n);
                    let line = RunLine { dialog: &dialog.id, n: item.n, ranked: ranked.iter().map(name).collect() };
                    writeln!(out, "{}", serde_json::to_string(&line)?).context("cannot write the rankings")?;
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    out.map(|mut out| out.flush()).transpose().context("cannot write the rankings")?;
    let turns: usize = dialogs.iter().map(|dialog| dialog.turns.len()).sum();
    let what = format!(
        "{scored} questions (the fifth or later of a dialog, different from their rewrite) against all {turns} raw \
         turns of {} dialogs; a hit is a turn of the same dialog before the last two; {}, profile {}",
        dialogs.len(),
        stage.vectors_by(),
        args.profile.as_str(),
    );
    Ok(vec![sheet(title("Follow-ups", &what), scored, &hits)])
}

/// What recall is asked with.
struct Asking<'a> {
    args: &'a FollowupsArgs,
    memory: &'a Memory,
    told: &'a Told,
    pool: &'a [(PoolTurn, Said)],
}

impl Asking<'_> {
    /// The turns that are found, best first, and whether the question was completed.
    async fn ranked(&self, way: Way, dialog: &Dialog, item: &Item) -> anyhow::Result<(Vec<PoolTurn>, bool)> {
        let session = self.told.sessions.get(&dialog.id).copied().filter(|_| way == Way::Completed);
        let ask = Ask { session, profile: self.args.profile.profile(), ..way.ask(dialog, item) };
        let recalled = self.memory.recall(&self.told.scope, &ask).await?;
        let mut turns: Vec<PoolTurn> = Vec::new();
        for place in self.told.places_of(recalled.ranked.iter().map(|ranked| ranked.message)) {
            let (turn, _) = self.pool[place];
            if !turns.contains(&turn) {
                turns.push(turn);
            }
        }
        Ok((turns, recalled.completed.is_some()))
    }
}

/// Every turn as messages, a session for each dialog.
fn pool(dialogs: &[Dialog]) -> Vec<(PoolTurn, Said)> {
    let mut pool = Vec::new();
    for (at, dialog) in dialogs.iter().enumerate() {
        for (n, turn) in (1..).zip(&dialog.turns) {
            let mut say = |role: Role, text: &str| {
                let id = format!("{}#{n}", dialog.id);
                let said = Said { id, session: dialog.id.clone(), role, name: None, text: text.into(), at: None };
                pool.push((PoolTurn { dialog: at, n }, said));
            };
            say(Role::User, &turn.question);
            turn.answer.as_deref().into_iter().for_each(|answer| say(Role::Assistant, answer));
        }
    }
    pool
}

/// Whether the first, and any of the first five, is of the right dialog. Its last two turns and later ones are passed
/// over, as if they were not there.
fn hit(ranked: &[PoolTurn], dialog: usize, n: usize) -> (bool, bool) {
    let counted = ranked.iter().filter(|turn| turn.dialog != dialog || turn.n + 2 < n);
    let right: Vec<bool> = counted.take(5).map(|turn| turn.dialog == dialog).collect();
    (right.first() == Some(&true), right.contains(&true))
}

fn sheet(title: String, scored: usize, hits: &HashMap<&str, Hits>) -> Sheet {
    let mut sheet = Sheet::new(title, &["asked", "n", "hit@1", "hit@5", "completed"]);
    for way in Way::ALL {
        let hits = hits.get(way.name()).copied().unwrap_or_default();
        let share = |count: usize| Cell::percent(count as f64 / scored as f64);
        let row = [Cell::text(way.name()), Cell::Count(scored), share(hits.first), share(hits.five)];
        sheet.rows.push(row.into_iter().chain([share(hits.changed)]).collect());
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ranked: &[(usize, usize)], expected: (bool, bool)) {
        let ranked: Vec<PoolTurn> = ranked.iter().map(|(dialog, n)| PoolTurn { dialog: *dialog, n: *n }).collect();
        assert_eq!(hit(&ranked, 1, 6), expected);
    }

    #[test]
    fn a_hit_is_an_older_turn_of_the_dialog() {
        check(&[(1, 3)], (true, true));
        check(&[(2, 6), (1, 1)], (false, true));
        check(&[(2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (1, 1)], (false, false));
        check(&[], (false, false));
    }

    #[test]
    fn the_last_two_turns_and_later_ones_are_passed_over() {
        check(&[(1, 4), (1, 5), (1, 6), (1, 9), (1, 2)], (true, true));
        check(&[(1, 4), (2, 4), (1, 3)], (false, true));
    }

    #[test]
    fn only_our_way_sees_the_conversation() {
        let turn = |n: usize| dialogs::DialogTurn { question: format!("q{n}"), answer: Some(format!("a{n}")) };
        let item = Item { n: 3, question: "and?".into(), rewrite: "and what?".into() };
        let dialog = Dialog { id: "d".into(), turns: (1..=3).map(turn).collect(), items: vec![] };
        let asked = Way::ALL.map(|way| way.ask(&dialog, &item)).map(|ask| (ask.question, ask.running));
        let none = Some(Vec::new());
        let running = Some(["q1", "a1", "q2", "a2"].map(str::to_owned).to_vec());
        let expected = [("and?", running), ("and?", none.clone()), ("and? q2 a2", none.clone()), ("and what?", none)];
        assert_eq!(asked, expected.map(|(question, running)| (question.to_owned(), running)));
    }
}
