//! Who makes vectors of what was said, by the setting `embedder`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::failure::Advised;
use crate::config::Settings;
use crate::model::embed::folder::FolderEmbedder;
use crate::model::embed::openai::{OpenAiEmbedder, OpenAiEmbedderSettings};
use crate::model::embed::{Builtin, EmbedError, Embedder};

/// What to do when the chosen one cannot be used.
const HINT: &str = "see `embedder` in the settings; \"builtin\" needs nothing (`recalld doctor` tells more)";

/// Who is to make vectors.
#[derive(Debug)]
pub(super) enum Choice {
    /// The one that is compiled in.
    Builtin,
    /// A model in a folder.
    Folder(PathBuf),
    /// A server.
    Server(OpenAiEmbedderSettings),
}

impl Choice {
    /// The choice in a few words.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Builtin => "the built-in one".into(),
            Self::Folder(folder) => format!("the model in {}", folder.display()),
            Self::Server(server) => format!("{} at {}", server.model, server.base_url),
        }
    }
}

/// Chooses by the settings and the environment.
pub(super) fn choose(settings: &Settings, environment: impl Fn(&str) -> Option<String>) -> Result<Choice, String> {
    let given = settings.embedder.trim();
    if given.starts_with("http://") || given.starts_with("https://") {
        return server(given, settings, environment).map(Choice::Server);
    }
    match given {
        "" | "builtin" => Ok(Choice::Builtin),
        folder if Path::new(folder).is_dir() => Ok(Choice::Folder(folder.into())),
        other => Err(format!(
            "`embedder` is `{other}`, which is no folder here; it must be \"builtin\", a folder with a model, or a URL such \
             as http://127.0.0.1:11434/v1"
        )),
    }
}

fn server(
    url: &str,
    settings: &Settings,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<OpenAiEmbedderSettings, String> {
    if settings.embedder_model.is_empty() {
        return Err(format!("`embedder` is {url}; set `embedder_model`, too, such as nomic-embed-text"));
    }
    let key = environment(&settings.embedder_key_env).filter(|key| !key.trim().is_empty());
    Ok(OpenAiEmbedderSettings {
        key,
        dimensions: Some(settings.embedder_dimensions).filter(|dimensions| *dimensions > 0),
        request_timeout: settings.embedder_timeout.duration(),
        ..OpenAiEmbedderSettings::new(url.trim_end_matches('/'), &settings.embedder_model)
    })
}

/// The embedder, ready to be asked. A server is asked once, so that what is wrong is said now and not for every turn.
pub(super) async fn open(choice: Choice) -> anyhow::Result<Arc<dyn Embedder>> {
    Ok(match choice {
        Choice::Builtin => Arc::new(Builtin::default()),
        Choice::Folder(folder) => {
            let opened = tokio::task::spawn_blocking(move || FolderEmbedder::open(&folder)).await?;
            Arc::new(opened.map_err(|error| Advised::new("cannot use the embedder", HINT, error))?)
        }
        Choice::Server(server) => Arc::new(connect(server).await?),
    })
}

async fn connect(server: OpenAiEmbedderSettings) -> anyhow::Result<OpenAiEmbedder> {
    let connected = OpenAiEmbedder::connect(server).await;
    connected.map_err(|error: EmbedError| Advised::new("cannot use the embedder", HINT, error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(embedder: &str, model: &str, expected: Result<&str, &str>) {
        let settings = Settings { embedder: embedder.into(), embedder_model: model.into(), ..Settings::default() };
        let chosen = choose(&settings, |name| (name == "OPENAI_API_KEY").then(|| "sk".to_owned()));
        match (chosen, expected) {
            (Ok(choice), Ok(told)) => assert_eq!(choice.told(), told),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (chosen, _) => panic!("{chosen:?} for {embedder}"),
        }
    }

    #[test]
    fn the_setting_chooses() {
        check("builtin", "", Ok("the built-in one"));
        check("src", "", Ok("the model in src"));
        check("http://127.0.0.1:11434/v1/", "nomic", Ok("nomic at http://127.0.0.1:11434/v1"));
        check("http://127.0.0.1:11434/v1", "", Err("set `embedder_model`"));
        check("/nowhere/at/all", "", Err("no folder here"));
    }

    #[tokio::test]
    async fn what_cannot_be_used_is_said_with_advice() {
        let nobody =
            OpenAiEmbedderSettings { retries_max: 0, ..OpenAiEmbedderSettings::new("http://127.0.0.1:9/v1", "m") };
        for choice in [Choice::Folder("src".into()), Choice::Server(nobody)] {
            let error = open(choice).await.err().expect("nothing there");
            assert!(error.downcast_ref::<Advised>().is_some(), "{error:#}");
        }
    }
}
