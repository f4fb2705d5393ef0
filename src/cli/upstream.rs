//! Which model answers, and why.

use std::net::SocketAddr;

use crate::config::Settings;

/// Where Ollama listens on this machine.
const OLLAMA: &str = "http://127.0.0.1:11434/v1";
/// OpenAI itself.
const OPENAI: &str = "https://api.openai.com/v1";

/// Who will answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Upstream {
    /// The built-in answerer.
    Builtin,
    /// An OpenAI-compatible server.
    Server {
        /// Its base URL.
        url: String,
        /// Its key.
        key: Option<String>,
        /// The model to ask for; `None` to ask the server what it has.
        model: Option<String>,
    },
}

/// A choice and its reason, for the banner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) upstream: Upstream,
    pub(super) why: String,
}

/// Chooses by the settings and the environment.
pub(super) fn choose(settings: &Settings, environment: impl Fn(&str) -> Option<String>) -> Result<Choice, String> {
    let variable = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
    let key = variable(&settings.upstream_key_env);
    let model = Some(settings.model.clone()).filter(|model| !model.is_empty());
    let server = |url: &str, model: Option<String>, why: String| {
        let url = url.trim_end_matches('/').to_owned();
        refuse_ourselves("upstream", &url, settings.listen)?;
        Ok(Choice { upstream: Upstream::Server { url, key: key.clone(), model }, why })
    };
    let or = |model: Option<String>, usual: &str| Some(model.unwrap_or_else(|| usual.to_owned()));
    match settings.upstream.as_str() {
        "builtin" => Ok(builtin("`upstream` is \"builtin\"")),
        "ollama" => server(OLLAMA, or(model, "llama3.2"), "`upstream` is \"ollama\"".into()),
        "auto" => match (variable("OPENAI_BASE_URL"), &key) {
            (Some(url), _) => server(&url, model, "OPENAI_BASE_URL is set".into()),
            (None, Some(_)) => {
                server(OPENAI, or(model, "gpt-4o-mini"), format!("{} is set", settings.upstream_key_env))
            }
            (None, None) => Ok(builtin(&format!("neither OPENAI_BASE_URL nor {} is set", settings.upstream_key_env))),
        },
        url if url.starts_with("http://") || url.starts_with("https://") => {
            server(url, model, "`upstream` says so".into())
        }
        other => Err(format!(
            "`upstream` is `{other}`; it must be a URL such as http://127.0.0.1:8080/v1, \"auto\", \"ollama\" or \"builtin\""
        )),
    }
}

fn builtin(why: &str) -> Choice {
    Choice { upstream: Upstream::Builtin, why: why.to_owned() }
}

/// A server that asks itself would never stop.
pub(super) fn refuse_ourselves(role: &str, url: &str, listen: SocketAddr) -> Result<(), String> {
    let authority = url.split("://").nth(1).unwrap_or("").split('/').next().unwrap_or("");
    let ours = [listen.to_string(), format!("localhost:{}", listen.port()), format!("127.0.0.1:{}", listen.port())];
    if ours.iter().any(|own| own.eq_ignore_ascii_case(authority)) {
        return Err(format!(
            "the {role} {url} is recalld's own address; name the model server's instead (is OPENAI_BASE_URL set for \
             your client in this shell? Then use --upstream)"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(upstream: &str, environment: &[(&str, &str)]) -> Result<(String, String), String> {
        let settings = Settings { upstream: upstream.into(), ..Settings::default() };
        let find = |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
        let choice = choose(&settings, find)?;
        let who = match choice.upstream {
            Upstream::Builtin => "builtin".into(),
            Upstream::Server { url, key, model } => {
                format!("{url} {} {}", key.as_deref().unwrap_or("-"), model.as_deref().unwrap_or("-"))
            }
        };
        Ok((who, choice.why))
    }

    #[test]
    fn auto_follows_the_environment() {
        assert_eq!(check("auto", &[]).expect("valid").0, "builtin");
        assert_eq!(
            check("auto", &[("OPENAI_API_KEY", "sk")]).expect("valid"),
            ("https://api.openai.com/v1 sk gpt-4o-mini".into(), "OPENAI_API_KEY is set".into())
        );
        let both = [("OPENAI_API_KEY", "sk"), ("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1/")];
        assert_eq!(check("auto", &both).expect("valid").0, "http://127.0.0.1:8080/v1 sk -");
        assert_eq!(check("auto", &[("OPENAI_API_KEY", " ")]).expect("valid").0, "builtin");
    }

    #[test]
    fn names_and_urls_are_understood() {
        assert_eq!(check("ollama", &[]).expect("valid").0, "http://127.0.0.1:11434/v1 - llama3.2");
        assert_eq!(check("builtin", &[("OPENAI_API_KEY", "sk")]).expect("valid").0, "builtin");
        assert!(check("llama", &[]).expect_err("no URL").contains("must be a URL"));
    }

    #[test]
    fn our_own_address_is_refused() {
        let error = check("auto", &[("OPENAI_BASE_URL", "http://localhost:7077/v1")]).expect_err("a loop");
        assert!(error.contains("recalld's own address"), "{error}");
    }
}
