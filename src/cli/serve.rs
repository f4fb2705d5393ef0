//! `recalld serve`: the server.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::net::TcpListener;
use tracing::info;

use super::engine::Engine;
use super::failure::Advised;
use super::upstream::Upstream;
use super::{Common, descriptors, logging, output};
use crate::api::router;
use crate::api::server::{ServerLimits, asked_to_stop, serve as serve_connections};
use crate::beside::{self, Beside};
use crate::config::Settings;
use crate::worker::Worker;

/// Part of the shutdown time that is kept for writing what was cut short.
const CLOSING_TIME: Duration = Duration::from_secs(2);

/// Flags of `serve`.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Where to listen [default: 127.0.0.1:7077].
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
}

pub(super) fn serve(common: &Common, args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = common.load([("listen", args.listen.clone())])?.settings;
    logging::start(&settings)?;
    let threads = beside::threads().context("cannot start threads")?;
    let served = super::runtime()?.block_on(run(settings, Beside::on(threads.handle())));
    threads.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

async fn run(settings: Settings, beside: Beside) -> anyhow::Result<()> {
    // The port first: a second server on the same port should say so before it touches any file.
    let listener = TcpListener::bind(settings.listen).await.map_err(|error| {
        let hint = "another server may run there; choose another port with --listen 127.0.0.1:PORT";
        Advised::new(format!("cannot listen on {}", settings.listen), hint, error)
    })?;
    let address = listener.local_addr().context("the listener has no address")?;
    let connections_max = descriptors::connections_max(settings.connections_max);
    let settings = Settings { listen: address, connections_max, ..settings };
    let engine = Engine::open(&settings, beside).await?;
    let keyed = engine.memory.tenants().roll().await.context("cannot read the keys")?.has_keys();
    settings.check_reach(keyed).map_err(anyhow::Error::msg)?;
    engine.file.iter().for_each(|file| file.announce(&format!("http://{address}")));
    let mut worker = Worker::start(engine.memory.clone(), engine.clock.clone(), settings.cleanup_every.duration());
    worker.flush(engine.waiting.clone());
    if !engine.erased_again {
        worker.erase_again(engine.memory.clone());
    }
    greet(&settings, &engine, keyed);
    let limits = ServerLimits {
        connections_max: settings.connections_max,
        connections_per_address_max: settings.connections_per_address(),
        trusted_proxies: settings.trusted_proxies.clone(),
        header_bytes_max: settings.header_bytes_max,
        header_timeout: settings.header_timeout.duration(),
        write_timeout: settings.body_timeout.duration(),
        finish_timeout: settings.shutdown_timeout.duration().saturating_sub(CLOSING_TIME),
    };
    serve_connections(listener, router(engine.app), limits, asked_to_stop()).await;
    info!("Stopping: finishing what was accepted");
    worker.stop().await;
    engine.memory.close(CLOSING_TIME).await.context("the store did not close well")
}

/// What a newcomer needs to know, once.
fn greet(settings: &Settings, engine: &Engine, keyed: bool) {
    let (name, why) = (engine.memory.model_name(), &engine.choice.why);
    let model = match &engine.choice.upstream {
        Upstream::Builtin => format!("{name}: quotes what it remembers, no language model ({why})"),
        Upstream::Server { url, .. } => format!("{name} at {url} ({why})"),
    };
    let (key, key_flag) = match settings.api_key() {
        Some(_) if keyed => {
            ("required: `api_key`, or one of `recalld keys list`", " -H \"authorization: Bearer $RECALLD_API_KEY\"")
        }
        Some(_) => ("required", " -H \"authorization: Bearer $RECALLD_API_KEY\""),
        None if keyed => ("required: one of `recalld keys list`", " -H \"authorization: Bearer $RECALLD_KEY\""),
        None => ("none needed; everything is open to this machine, and to nobody else", ""),
    };
    let users = match settings.share_unidentified(keyed) {
        _ if settings.openwebui_jwt_secret.is_some() => "only Open WebUI's signed user token names a user",
        true => "requests that name no user share one memory, `anonymous`; send X-User-ID to keep people apart",
        false => {
            "requests that name no user are remembered by session only, and one without a session id is never matched
          by its history: Open WebUI needs its user headers, a key bound to its one user, or `unidentified = \"shared\"`"
        }
    };
    let url = format!("http://{}", settings.listen);
    output::note(format!(
        "recalld {version}
  data    {data}
  url     {url}
  model   {model}
  key     {key}
  users   {users}

Try it:
  curl -s {url}/chat{key_flag} -H 'content-type: application/json' -d '{{\"query\":\"Hello, my name is Ann.\"}}'
",
        version = env!("CARGO_PKG_VERSION"),
        data = engine.data.display(),
    ));
}
