//! Who is asked in the background, by the settings `memory_url` and `memory_model`.

use std::sync::Arc;

use super::failure::Advised;
use super::upstream::refuse_ourselves;
use crate::config::Settings;
use crate::model::memory::{MemoryModel, MemoryModelSettings};
use crate::model::summarise::{Extractive, Summariser};

/// The memory model, if there is one; `None` is the built-in. Nothing but these settings makes one: a model that answers
/// people is not asked for more by itself.
pub(super) fn choose(
    settings: &Settings,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Option<MemoryModelSettings>, String> {
    let (url, model) = (settings.memory_url.trim().trim_end_matches('/'), settings.memory_model.trim());
    match (url, model) {
        ("", "") => return Ok(None),
        ("", model) => {
            return Err(format!("`memory_model` is {model}; set `memory_url`, too, such as http://127.0.0.1:11434/v1"));
        }
        (url, "") => return Err(format!("`memory_url` is {url}; set `memory_model`, too, such as qwen3:4b")),
        _ => refuse_ourselves("memory model", url, settings.listen)?,
    }
    Ok(Some(MemoryModelSettings {
        url: url.to_owned(),
        model: model.to_owned(),
        key: environment(&settings.memory_key_env).filter(|key| !key.trim().is_empty()),
        timeout: settings.memory_timeout.duration(),
        tokens_max: settings.memory_model_tokens_max,
    }))
}

/// Who summarises. Nobody is called: a memory model that is down must not keep the server from starting.
pub(super) fn open(choice: Option<MemoryModelSettings>) -> anyhow::Result<Arc<dyn Summariser>> {
    let Some(settings) = choice else { return Ok(Arc::new(Extractive)) };
    let hint = "see `memory_url` in the settings; empty uses the built-in summariser";
    let model = MemoryModel::new(settings).map_err(|error| Advised::new("cannot use the memory model", hint, error))?;
    Ok(Arc::new(model))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, model: &str, expected: Result<Option<&str>, &str>) {
        let settings = Settings { memory_url: url.into(), memory_model: model.into(), ..Settings::default() };
        let chosen = choose(&settings, |name| (name == "OPENAI_API_KEY").then(|| "sk".to_owned()));
        match (chosen, expected) {
            (Ok(choice), Ok(told)) => {
                let choice =
                    choice.map(|choice| format!("{} at {} {}", choice.model, choice.url, choice.key.is_some()));
                assert_eq!(choice.as_deref(), told);
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (chosen, _) => panic!("{chosen:?} for {url} {model}"),
        }
    }

    #[test]
    fn the_settings_choose_and_nothing_else() {
        check("", "", Ok(None));
        check("http://127.0.0.1:11434/v1/", "qwen3:4b", Ok(Some("qwen3:4b at http://127.0.0.1:11434/v1 true")));
        check("http://127.0.0.1:11434/v1", "", Err("set `memory_model`"));
        check("", "qwen3:4b", Err("set `memory_url`"));
        check("http://localhost:7077/v1", "m", Err("recalld's own address"));
    }

    #[test]
    fn what_cannot_be_used_is_said_at_the_start() {
        let settings = |url: &str| Settings { memory_url: url.into(), memory_model: "m".into(), ..Settings::default() };
        let choice = choose(&settings("somewhere"), |_| None).expect("chosen");
        assert!(open(choice).is_err_and(|error| error.downcast_ref::<Advised>().is_some()));
        assert!(open(None).expect("the built-in").name().starts_with("builtin"));
    }
}
