//! `recalld bench episodes`: whether the summary that tells of the evidence is found, and how often one is shown for
//! nothing.
//!
//! Everything is summarised in stretches. A question is asked of the memory in which its evidence is, and of another
//! one, where whatever is found is a mistake.

use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;

use super::chats::{self, Chat, Question};
use super::sheet::{Cell, Sheet};
use super::stage::{Stage, Told, VectorArgs};
use super::{progress, title};
use crate::episode::{Level, Window};
use crate::memory::Memory;
use crate::recall::{Aside, AsideSource, Ask, Fate, Layer, WeightTable};

/// Flags of `bench episodes`.
#[derive(Debug, Args)]
pub(crate) struct EpisodesArgs {
    /// Chats with questions, as LoCoMo writes them or as `bench/README.md` describes.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Turns in a stretch.
    #[arg(long, default_value_t = 20, value_name = "N")]
    stretch: usize,
    /// Put all chats into one memory, for chats that are too short alone. Then no question is a stranger.
    #[arg(long)]
    together: bool,
    #[command(flatten)]
    vectors: VectorArgs,
}

/// Summaries that are looked at.
const LOOKED_AT: usize = 500;
/// As many as a context has.
const SHOWN: usize = 3;

/// What was found for a question: its stretches best first, and whether each tells of evidence.
struct Asked {
    found: Vec<Found>,
    /// Asked of a memory that knows nothing about it.
    strange: bool,
}

struct Found {
    words: f32,
    similar: f32,
    score: f32,
    kept: bool,
    right: bool,
}

/// A memory with a chat in it.
struct Scene<'a> {
    chat: &'a Chat,
    told: Told,
}

pub(crate) async fn run(args: &EpisodesArgs) -> anyhow::Result<Vec<Sheet>> {
    let mut chats = chats::read_all(&args.files)?;
    if args.together {
        chats = vec![together(chats)];
    }
    ensure!(chats.iter().any(|chat| !chat.questions.is_empty()), "nothing is asked in these files");
    let stage = Stage::open(&args.vectors).await?;
    let window = Window { at: 1, keep: 0, stretch: args.stretch.max(1) };
    let memory = stage.memory_with_window(WeightTable::shipped(), window);
    let mut scenes = Vec::new();
    for (n, chat) in chats.iter().enumerate() {
        let told = stage.tell(&memory, &format!("chat-{n}"), &chat.messages).await?;
        stage.summarise(&memory, &told).await?;
        scenes.push(Scene { chat, told });
    }
    let bar = progress("asking", "questions", chats.iter().map(|chat| chat.questions.len()).sum())?;
    let mut asked = Vec::new();
    for (n, scene) in scenes.iter().enumerate() {
        let stranger = &scenes[(n + 1) % scenes.len()];
        for question in &scene.chat.questions {
            asked.push(scene.ask(&memory, question, false).await?);
            if scenes.len() > 1 {
                asked.push(stranger.ask(&memory, question, true).await?);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let what = format!("{}, stretches of {} turns", stage.vectors_by(), args.stretch);
    Ok(vec![ranking(title("Episodes", &what), &asked), threshold(title("Least score", &what), &asked)])
}

/// All chats as one; messages and sessions keep apart by their chat's name.
fn together(chats: Vec<Chat>) -> Chat {
    let mut all = Chat { id: "all".into(), messages: Vec::new(), questions: Vec::new() };
    for chat in chats {
        let named = |id: &str| format!("{}/{id}", chat.id);
        all.messages.extend(chat.messages.iter().cloned().map(|mut said| {
            (said.id, said.session) = (named(&said.id), named(&said.session));
            said
        }));
        all.questions.extend(chat.questions.iter().cloned().map(|mut question| {
            question.evidence = question.evidence.iter().map(|id| named(id)).collect();
            question
        }));
    }
    all
}

impl Scene<'_> {
    async fn ask(&self, memory: &Memory, question: &Question, strange: bool) -> anyhow::Result<Asked> {
        let evidence = if strange { Vec::new() } else { self.numbers(memory, question).await? };
        let ask = Ask {
            question: question.text.clone(),
            asked_at: question.asked_at.or(self.told.last_at),
            tokens_max: 1_000,
            ranked_max: LOOKED_AT,
            ..Ask::default()
        };
        let recalled = memory.recall(&self.told.scope, &ask).await?;
        let stretches = recalled.asides.iter().filter(|considered| is_stretch(&considered.aside));
        let found = stretches.map(|considered| Found {
            words: part(&considered.aside, "words"),
            similar: part(&considered.aside, "similar"),
            score: considered.aside.score,
            kept: considered.fate == Fate::Kept,
            right: evidence.iter().any(|turn| tells_of(&considered.aside, *turn)),
        });
        Ok(Asked { found: found.collect(), strange })
    }

    /// The conversations and turns in which the evidence is.
    async fn numbers(&self, memory: &Memory, question: &Question) -> anyhow::Result<Vec<Place>> {
        let places = super::rank::places(self.chat, &question.evidence);
        let mut numbers = Vec::new();
        for (message, place) in &self.told.places {
            if places.contains(place) {
                let turn = memory.turn(&self.told.scope, message.turn()).await?;
                numbers.push((turn.session, turn.number));
            }
        }
        Ok(numbers)
    }
}

type Place = (crate::id::SessionId, u64);

fn is_stretch(aside: &Aside) -> bool {
    aside.layer == Layer::Episodes && matches!(aside.source, AsideSource::Episode { level: Level::Stretch, .. })
}

fn tells_of(aside: &Aside, (of, turn): Place) -> bool {
    matches!(aside.source, AsideSource::Episode { session, first, last, .. }
             if session == of && (first..=last).contains(&turn))
}

fn part(aside: &Aside, name: &str) -> f32 {
    aside.signals.iter().find(|(signal, _)| *signal == name).map_or(0.0, |(_, part)| *part)
}

/// What stretches are put in order by.
type Order = fn(&Found) -> f32;

/// How often a right one is the first, and among those shown, by different orders.
fn ranking(title: String, asked: &[Asked]) -> Sheet {
    let known: Vec<&Asked> = asked.iter().filter(|asked| !asked.strange).collect();
    let mut sheet = Sheet::new(title, &["order", "n", "hit@1", "hit@3", "MRR"]);
    let orders: [(&str, Order); 6] = [
        ("score", |found| found.score),
        ("vectors alone", |found| found.similar),
        ("words alone", |found| found.words),
        ("words half as much", |found| found.similar + 0.5 * found.words),
        ("words twice as much", |found| found.similar + 2.0 * found.words),
        ("words four times as much", |found| found.similar + 4.0 * found.words),
    ];
    for (name, by) in orders {
        let firsts: Vec<Option<usize>> = known.iter().map(|asked| first_right(asked, by)).collect();
        let share = |within: usize| {
            firsts.iter().filter(|first| first.is_some_and(|at| at < within)).count() as f64 / firsts.len() as f64
        };
        let mrr = firsts.iter().flatten().map(|at| 1.0 / (*at as f64 + 1.0)).sum::<f64>() / firsts.len() as f64;
        let shares = [share(1), share(SHOWN), mrr].map(Cell::percent);
        sheet.rows.push([vec![Cell::text(name), Cell::Count(known.len())], shares.to_vec()].concat());
    }
    sheet
}

fn first_right(asked: &Asked, by: Order) -> Option<usize> {
    let mut order: Vec<&Found> = asked.found.iter().collect();
    order.sort_by(|a, b| by(b).total_cmp(&by(a)));
    order.iter().position(|found| found.right)
}

/// What a least score costs and saves: right ones that are still shown, how many are shown, and for strangers' questions.
fn threshold(title: String, asked: &[Asked]) -> Sheet {
    let head = ["least score", "right one shown", "shown", "shown to strangers", "strangers shown any"];
    let mut sheet = Sheet::new(title, &head);
    for step in 0..=16 {
        let least = 0.1 + 0.05 * step as f32;
        let shown = |asked: &Asked| asked.found.iter().take(SHOWN).filter(|found| found.score >= least).count() as f64;
        let right = |asked: &&Asked| asked.found.iter().take(SHOWN).any(|found| found.right && found.score >= least);
        sheet.rows.push(row(format!("{least:.2}"), asked, shown, right));
    }
    let kept = |asked: &Asked| asked.found.iter().filter(|found| found.kept).count() as f64;
    let right = |asked: &&Asked| asked.found.iter().any(|found| found.right && found.kept);
    sheet.rows.push(row("as it ships, in 1,000 tokens".into(), asked, kept, right));
    sheet
}

fn row(name: String, asked: &[Asked], shown: impl Fn(&Asked) -> f64, right: impl Fn(&&Asked) -> bool) -> Vec<Cell> {
    let (strange, known): (Vec<&Asked>, Vec<&Asked>) = asked.iter().partition(|asked| asked.strange);
    let mean = |of: &[&Asked]| of.iter().map(|asked| shown(asked)).sum::<f64>() / of.len().max(1) as f64;
    let any = strange.iter().filter(|asked| shown(asked) > 0.0).count() as f64 / strange.len().max(1) as f64;
    let right = known.iter().filter(|asked| right(asked)).count() as f64 / known.len() as f64;
    vec![
        Cell::text(name),
        Cell::percent(right),
        Cell::Number(mean(&known), 2),
        Cell::Number(mean(&strange), 2),
        Cell::percent(any),
    ]
}
