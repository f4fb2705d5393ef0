//! A memory from settings: the parts, put together.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;

use super::database::{self, Opened};
use super::embedder;
use super::failure::Advised;
use super::memory_model;
use super::upstream::{Choice, Upstream, choose};
use crate::api::App;
use crate::beside::Beside;
use crate::clock::{Clock, SystemClock};
use crate::config::Settings;
use crate::courier::HttpCourier;
use crate::id::RandomIds;
use crate::lifecycle::ClockWatch;
use crate::memory::{EndHooks, Memory, Parts};
use crate::meter::Meters;
use crate::model::builtin::Builtin;
use crate::model::openai::{OpenAi, OpenAiSettings};
use crate::model::{ChatModel, relay};
use crate::recall::WeightTable;
use crate::session::Templates;
use crate::store::{Sqlite, Store, Waiting};
use crate::worker::not_yet;

/// Everything that runs, in one hand.
pub(super) struct Engine {
    pub(super) memory: Memory,
    pub(super) app: App,
    /// The data file, unless it is a database.
    pub(super) file: Option<Arc<Sqlite>>,
    pub(super) waiting: Arc<Waiting<dyn Store>>,
    pub(super) clock: Arc<ClockWatch>,
    pub(super) data: PathBuf,
    pub(super) choice: Choice,
    /// Whether what was erased was looked at; if not, that is to be done as soon as the store answers.
    pub(super) erased_again: bool,
}

/// An environment variable, if it is set and text.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Engine {
    /// Opens the store and puts a memory together. A file that another process holds is a
    /// [`crate::store::StoreError::InUse`] in the chain.
    pub(super) async fn open(settings: &Settings, beside: Beside) -> anyhow::Result<Self> {
        settings.check_secret().map_err(anyhow::Error::msg)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let choice = choose(settings, variable).map_err(anyhow::Error::msg)?;
        let folder = Some(settings.templates_dir.as_path()).filter(|folder| !folder.as_os_str().is_empty());
        let templates = Templates::load(folder, &settings.language)?;
        let weights = weights(settings)?;
        let vectors_by = embedder::choose(settings, variable).map_err(anyhow::Error::msg)?;
        let summarised_by = memory_model::choose(settings, variable).map_err(anyhow::Error::msg)?;
        let summariser = memory_model::open(summarised_by)?;
        // Before any server is asked for its models: who finds the file in use should not wait for that.
        let Opened { store, file, place: data, outage } = database::open(settings, &clock).await?;
        let (Answerer { model, upstream }, choice) = answerer(settings, choice).await?;
        let embedder = embedder::open(vectors_by).await?;
        let (ids, meters) = (Arc::new(RandomIds), Arc::new(Meters::default()));
        let waiting = Waiting::new(store, Arc::clone(&clock), settings.waiting()).counted_by(Arc::clone(&meters));
        let waiting = Arc::new(match outage {
            Some(outage) => waiting.through(outage),
            None => waiting,
        });
        tidy_up(&*waiting).await?;
        let watch = Arc::new(ClockWatch::starting(clock.reading()));
        let store: Arc<dyn Store> = Arc::clone(&waiting) as _;
        let ending = EndHooks { hook: None, courier: Some(Arc::new(HttpCourier::default())) };
        let mut memory_settings = settings.memory();
        let live = super::live::open(settings, memory_settings.live_bytes_max, &clock, &meters)?;
        let parts = Parts {
            store,
            model,
            upstream,
            clock,
            ids,
            embedder,
            summariser,
            weights,
            templates,
            meters,
            ending,
            live,
            beside,
        };
        memory_settings.knowledge.parser.get_or_insert_with(own_program);
        let memory = Memory::new(parts, memory_settings);
        let erased_again = erase_again(&memory).await?;
        let queue = Arc::clone(&waiting);
        let app = App::new(memory.clone(), Arc::clone(&watch), move || queue.state(), settings);
        Ok(Self { memory, app, file, waiting, clock: watch, data, choice, erased_again })
    }
}

/// This very program: started again with `parse` it reads strangers' files. By this path it is found even after its file was
/// replaced by another version.
fn own_program() -> PathBuf {
    let linked = PathBuf::from("/proc/self/exe");
    if linked.exists() { linked } else { std::env::current_exe().unwrap_or(linked) }
}

/// How much each of recall's signals counts.
pub(super) fn weights(settings: &Settings) -> anyhow::Result<Arc<WeightTable>> {
    let file = &settings.weights_file;
    if file.as_os_str().is_empty() {
        return Ok(WeightTable::shipped());
    }
    let hint = "see `weights_file` in the settings; empty uses the built-in weights";
    let what = format!("cannot use the weights in {}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| Advised::new(&what, hint, error))?;
    Ok(Arc::new(WeightTable::read(&text).map_err(|error| Advised::new(&what, hint, error))?))
}

/// Marks what the last run left unanswered. A full disk must not keep the server from starting: those turns
/// are not shown to anybody as long as they are pending, and the next start tries again.
async fn tidy_up(store: &dyn Store) -> anyhow::Result<()> {
    match store.fail_abandoned().await {
        Ok(0) => {}
        Ok(turns) => tracing::warn!(turns, "{turns} turns were left without an answer by the last run"),
        Err(error) if error.may_pass() => not_yet("What the last run left unanswered is not marked yet", &error),
        Err(error) => return Err(error).context("cannot tidy up what the last run left"),
    }
    match store.jobs().release().await {
        Ok(_) => {}
        // They are claimed again when their leases lapse.
        Err(error) if error.may_pass() => not_yet("Jobs of the last run are not free yet", &error),
        Err(error) => return Err(error).context("cannot free the jobs of the last run"),
    }
    match store.outbox().release_parcels().await {
        Ok(_) => {}
        Err(error) if error.may_pass() => not_yet("Webhooks of the last run are not free yet", &error),
        Err(error) => return Err(error).context("cannot free the webhooks of the last run"),
    }
    Ok(())
}

/// Erases what an older copy of the data brought back, before anybody can ask for it. Answers whether that could be done.
async fn erase_again(memory: &Memory) -> anyhow::Result<bool> {
    match memory.reapply_erasures().await {
        Ok(_) => Ok(true),
        Err(error) if error.may_pass() => {
            not_yet("What was erased is not looked at yet", &error);
            Ok(false)
        }
        Err(error) => Err(error).context("cannot erase again what was erased before these data were put back"),
    }
}

/// Whoever answers, for both doors.
struct Answerer {
    model: Arc<dyn ChatModel>,
    upstream: Arc<dyn relay::Upstream>,
}

async fn answerer(settings: &Settings, mut choice: Choice) -> anyhow::Result<(Answerer, Choice)> {
    let Upstream::Server { url, key, model } = &mut choice.upstream else {
        return Ok((Answerer { model: Arc::new(Builtin), upstream: Arc::new(Builtin) }, choice));
    };
    let mut server = OpenAiSettings {
        base_url: url.clone(),
        key: key.clone(),
        model: model.clone().unwrap_or_default(),
        connect_timeout: settings.upstream_connect_timeout.duration(),
        first_byte_timeout: settings.upstream_reply_timeout.duration(),
        idle_timeout: settings.upstream_idle_timeout.duration(),
        retries_max: settings.upstream_retries_max,
    };
    if model.is_none() {
        let first = OpenAi::new(server.clone())?.first_model().await;
        choice.why = match &first {
            Some(name) => format!("{}; `{name}` is the first model it lists", choice.why),
            None => format!("{}; it lists no models, so `default` is asked for (set `model`)", choice.why),
        };
        let name = first.unwrap_or_else(|| "default".to_owned());
        server.model.clone_from(&name);
        *model = Some(name);
    }
    let server = Arc::new(OpenAi::new(server)?);
    Ok((Answerer { model: Arc::clone(&server) as _, upstream: server }, choice))
}
