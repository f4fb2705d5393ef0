//! A memory of its own to measure with: an empty store that vanishes afterwards, an embedder, weights.
//!
//! Messages are told to it through the calls the doors make, and every row and vector is made before the first
//! question: what is measured is recall at rest.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use jiff::Timestamp;

use super::chats::Said;
use crate::clock::{Clock, SystemClock};
use crate::episode::{EpisodeSettings, Window};
use crate::id::{MessageId, SessionId};
use crate::memory::{Memory, MemorySettings, Parts};
use crate::message::Message;
use crate::model::ChatModel;
use crate::model::embed::{self, Embedder, FolderEmbedder, OpenAiEmbedder, OpenAiEmbedderSettings};
use crate::recall::{Profile, RecallSettings, WeightTable};
use crate::scope::{Scope, Tenant, User};
use crate::session::{AddedMessage, SessionSeed, TURN_MESSAGES_MAX};
use crate::store::{Sqlite, Store, Todo};

/// Flags that say where vectors come from.
#[derive(Debug, Args)]
pub(crate) struct VectorArgs {
    /// Who makes vectors: `builtin`, a sentence transformer in `folder:PATH`, or a base URL ending in /v1.
    #[arg(long, default_value = "builtin", value_name = "builtin|folder:PATH|URL")]
    embedder: String,
    /// The embedding model to ask a server for.
    #[arg(long, default_value = "text-embedding-3-small", value_name = "NAME")]
    embedder_model: String,
    /// The environment variable that holds the embedding server's key.
    #[arg(long, value_name = "NAME")]
    embedder_key_env: Option<String>,
    /// Search by words alone.
    #[arg(long)]
    pub(crate) no_vectors: bool,
}

/// A kind of chat, or whichever the server would choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    People,
    Assistant,
    Mixed,
    /// By the roles in the chat, as the server does.
    Auto,
}

impl Kind {
    pub(crate) fn profile(self) -> Option<Profile> {
        match self {
            Self::People => Some(Profile::People),
            Self::Assistant => Some(Profile::Assistant),
            Self::Mixed => Some(Profile::Mixed),
            Self::Auto => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        self.profile().map_or("auto", Profile::as_str)
    }
}

/// Reads a file of weights; without one, the weights that ship.
pub(crate) fn weights(file: Option<&Path>) -> anyhow::Result<Arc<WeightTable>> {
    let Some(file) = file else { return Ok(WeightTable::shipped()) };
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Arc::new(WeightTable::read(&text).with_context(|| format!("{} holds no weights", file.display()))?))
}

/// Where it is measured.
pub(crate) struct Stage {
    clock: Arc<SystemClock>,
    store: Arc<Sqlite>,
    embedder: Arc<dyn Embedder>,
    vectors: bool,
}

/// Messages that were told to a memory.
pub(crate) struct Told {
    pub(crate) scope: Scope,
    pub(crate) sessions: HashMap<String, SessionId>,
    /// The place of each message in the list that was told.
    pub(crate) places: HashMap<MessageId, usize>,
    /// When the last one was said, if that is known.
    pub(crate) last_at: Option<Timestamp>,
}

impl Stage {
    pub(crate) async fn open(args: &VectorArgs) -> anyhow::Result<Self> {
        let clock = Arc::new(SystemClock::default());
        let store = Arc::new(Sqlite::temporary(clock.clone())?);
        Ok(Self { clock, store, embedder: embedder(args).await?, vectors: !args.no_vectors })
    }

    pub(crate) fn embedder(&self) -> &dyn Embedder {
        &*self.embedder
    }

    /// Who makes vectors, by name.
    pub(crate) fn vectors_by(&self) -> String {
        if self.vectors { self.embedder.id().to_string() } else { "no vectors".into() }
    }

    /// A memory on the stage's store, with weights of its own.
    pub(crate) fn memory(&self, weights: Arc<WeightTable>) -> Memory {
        self.memory_with_window(weights, EpisodeSettings::default().durable)
    }

    /// The same, whose turns go to summaries at other times.
    pub(crate) fn memory_with_window(&self, weights: Arc<WeightTable>, durable: Window) -> Memory {
        Memory::new(Parts { weights, ..self.parts() }, self.settings(durable))
    }

    /// The same with a model to ask.
    pub(crate) fn memory_with_model(&self, model: Arc<dyn ChatModel>) -> Memory {
        Memory::new(Parts { model, ..self.parts() }, self.settings(EpisodeSettings::default().durable))
    }

    fn parts(&self) -> Parts {
        parts(Arc::clone(&self.store) as Arc<dyn Store>, self.clock.clone(), Arc::clone(&self.embedder))
    }

    /// Whatever a file holds is measured whole, and a slow embedder is waited for.
    fn settings(&self, durable: Window) -> MemorySettings {
        let recall = RecallSettings {
            vectors: self.vectors,
            embedder_patience: Duration::from_secs(60),
            index_bytes_max: 4 << 30,
            ..RecallSettings::default()
        };
        let episodes = EpisodeSettings { durable, ..EpisodeSettings::default() };
        MemorySettings { query_chars_max: 1 << 20, recall, episodes, ..MemorySettings::default() }
    }

    /// Tells messages to a user's memory, in order. Blank ones are left out: nothing can be stored of them.
    pub(crate) async fn tell(&self, memory: &Memory, user: &str, messages: &[Said]) -> anyhow::Result<Told> {
        self.tell_showing(memory, user, messages, &ProgressBar::hidden()).await
    }

    /// The same, with a bar that counts messages.
    pub(crate) async fn tell_showing(
        &self,
        memory: &Memory,
        user: &str,
        messages: &[Said],
        bar: &ProgressBar,
    ) -> anyhow::Result<Told> {
        let scope = Scope::new(Tenant::default(), User::parse(user)?);
        let last_at = messages.iter().filter_map(|said| said.at).max();
        let mut told = Told { scope, sessions: HashMap::new(), places: HashMap::new(), last_at };
        let mut rest: Vec<(usize, &Said)> =
            messages.iter().enumerate().filter(|(_, said)| !said.text.trim().is_empty()).collect();
        while let Some((_, first)) = rest.first() {
            let same = rest.iter().take(TURN_MESSAGES_MAX).take_while(|(_, said)| said.session == first.session);
            let later = rest.split_off(same.count());
            told.add(memory, &rest).await?;
            bar.inc(rest.len() as u64);
            rest = later;
        }
        self.settle(memory).await?;
        Ok(told)
    }

    /// Summarises what has left the window of each session.
    pub(crate) async fn summarise(&self, memory: &Memory, told: &Told) -> anyhow::Result<()> {
        for session in told.sessions.values() {
            memory.ask_for_digest(&told.scope, *session).await?;
        }
        memory.run_jobs_once().await?;
        Ok(())
    }

    /// Makes every row and vector that is still missing.
    pub(crate) async fn settle(&self, memory: &Memory) -> anyhow::Result<()> {
        while !memory.derive_rows().await?.is_nothing() {}
        if self.vectors && !self.store.recall_todo(Todo::Vector, 1).await?.is_empty() {
            bail!("the embedder made no vectors of some messages; the log says why");
        }
        Ok(())
    }
}

/// What a memory without a model is made of.
pub(in crate::cli::bench) fn parts(store: Arc<dyn Store>, clock: Arc<dyn Clock>, embedder: Arc<dyn Embedder>) -> Parts {
    Parts { embedder, ..Parts::builtin(store, clock) }
}

impl Told {
    /// Adds messages of one session, each with its place.
    async fn add(&mut self, memory: &Memory, messages: &[(usize, &Said)]) -> anyhow::Result<()> {
        let Some((_, first)) = messages.first() else { return Ok(()) };
        let session = match self.sessions.get(&first.session) {
            Some(known) => *known,
            None => memory.create_session(&self.scope, None, SessionSeed::default()).await?.id,
        };
        self.sessions.insert(first.session.clone(), session);
        let added = messages.iter().map(|(_, said)| added(said)).collect();
        let turns = memory.add_messages(&self.scope, session, added).await?;
        // A turn that was answered now comes back whole: what was added earlier has its place already.
        let ids = turns.iter().flat_map(|turn| turn.identified().map(|(id, _)| id));
        let new: Vec<MessageId> = ids.filter(|id| !self.places.contains_key(id)).collect();
        if new.len() != messages.len() {
            bail!("{} messages were told, {} were stored", messages.len(), new.len());
        }
        self.places.extend(new.into_iter().zip(messages.iter().map(|(place, _)| *place)));
        Ok(())
    }

    /// The places of messages, each once; what was not told is left out.
    pub(crate) fn places_of(&self, messages: impl IntoIterator<Item = MessageId>) -> Vec<usize> {
        let mut places = Vec::new();
        for place in messages.into_iter().filter_map(|id| self.places.get(&id)) {
            if !places.contains(place) {
                places.push(*place);
            }
        }
        places
    }
}

fn added(said: &Said) -> AddedMessage {
    let visible = |c: char| if c.is_control() && !matches!(c, '\n' | '\r' | '\t') { ' ' } else { c };
    let text: String = said.text.chars().map(visible).collect();
    let message = Message::new(said.role, text, said.at.unwrap_or(Timestamp::UNIX_EPOCH));
    AddedMessage { message: Message { name: said.name.clone(), ..message }, dated: said.at.is_some() }
}

/// The embedder that the flags name.
pub(crate) async fn embedder(args: &VectorArgs) -> anyhow::Result<Arc<dyn Embedder>> {
    if args.embedder == "builtin" {
        return Ok(Arc::new(embed::Builtin::default()));
    }
    if let Some(folder) = args.embedder.strip_prefix("folder:") {
        return Ok(Arc::new(FolderEmbedder::open(&PathBuf::from(folder))?));
    }
    if !args.embedder.starts_with("http") {
        bail!("`{}` is no embedder; write builtin, folder:PATH or http://…/v1", args.embedder);
    }
    let key = args.embedder_key_env.as_deref().map(|name| std::env::var(name).with_context(|| format!("${name}")));
    let server = OpenAiEmbedderSettings {
        key: key.transpose()?,
        ..OpenAiEmbedderSettings::new(&args.embedder, &args.embedder_model)
    };
    Ok(Arc::new(OpenAiEmbedder::connect(server).await?))
}
