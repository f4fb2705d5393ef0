//! Context templates: how a conversation is shown to the model, by language.
//!
//! English and Dutch are built in; a folder may add languages or replace these.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::language;
use crate::message::{Message, Role};

/// The wording of one language.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Two-letter code.
    pub language: String,
    system: String,
    caller: String,
    heading: String,
    user: String,
    assistant: String,
    tool: String,
    line: String,
}

/// Other words for some of a template's, as a tenant may have them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields of a template, which docs/templates.md explains")]
pub struct TemplatePatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assistant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

impl TemplatePatch {
    fn applied_to(&self, template: &Template) -> Template {
        let or = |patch: &Option<String>, base: &String| patch.as_ref().unwrap_or(base).clone();
        Template {
            language: template.language.clone(),
            system: or(&self.system, &template.system),
            caller: or(&self.caller, &template.caller),
            heading: or(&self.heading, &template.heading),
            user: or(&self.user, &template.user),
            assistant: or(&self.assistant, &template.assistant),
            tool: or(&self.tool, &template.tool),
            line: or(&self.line, &template.line),
        }
    }
}

/// Why a template could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The folder or a file in it cannot be read.
    #[error("cannot read the template {path}")]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not a template.
    #[error("the template {path} is not valid: {source}")]
    Invalid {
        /// Which one.
        path: PathBuf,
        /// What is wrong.
        source: Box<toml::de::Error>,
    },
    /// The setting names a language nobody wrote a template for.
    #[error("there is no template for the language `{wanted}`; there is: {known}")]
    Unknown {
        /// The setting.
        wanted: String,
        /// What there is.
        known: String,
    },
}

impl Template {
    /// The system prompt, with the caller's role where one is known.
    pub fn system(&self, role: Option<&str>) -> String {
        match role {
            Some(role) => format!("{} {}", self.system, fill(&self.caller, &[("{role}", role)])),
            None => self.system.clone(),
        }
    }

    /// The earlier conversation as text; empty when there is none.
    pub fn conversation(&self, messages: &[&Message]) -> String {
        if messages.is_empty() {
            return String::new();
        }
        let mut text = format!("{}\n", self.heading);
        for message in messages {
            let speaker = self.speaker(message);
            text.push('\n');
            text.push_str(&fill(&self.line, &[("{speaker}", speaker), ("{text}", &message.text)]));
            text.push('\n');
        }
        text
    }

    fn speaker<'a>(&'a self, message: &'a Message) -> &'a str {
        match (&message.name, message.role) {
            (Some(name), Role::User) => name,
            (_, Role::User) => &self.user,
            (_, Role::Tool) => &self.tool,
            _ => &self.assistant,
        }
    }
}

/// Fills places in one pass, so that a text which contains a place is not filled again.
fn fill(pattern: &str, places: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((at, place, value)) =
        places.iter().filter_map(|(place, value)| rest.find(place).map(|at| (at, place, value))).min_by_key(|hit| hit.0)
    {
        filled.push_str(&rest[..at]);
        filled.push_str(value);
        rest = &rest[at + place.len()..];
    }
    filled.push_str(rest);
    filled
}

/// All languages there are, and which one to use.
#[derive(Debug, Clone)]
pub struct Templates {
    by_language: BTreeMap<String, Template>,
    /// A fixed language, or `None` to follow the conversation.
    fixed: Option<String>,
}

/// The languages in the binary.
const BUILT_IN: [(&str, &str); 2] =
    [("en.toml", include_str!("templates/en.toml")), ("nl.toml", include_str!("templates/nl.toml"))];

impl Templates {
    /// The built-in templates and those in a folder. `language` is a code, or `auto`.
    pub fn load(folder: Option<&Path>, language: &str) -> Result<Self, TemplateError> {
        let mut by_language = BTreeMap::new();
        let mut add = |path: &Path, text: &str| -> Result<(), TemplateError> {
            let template: Template = toml::from_str(text)
                .map_err(|source| TemplateError::Invalid { path: path.into(), source: Box::new(source) })?;
            by_language.insert(template.language.clone(), template);
            Ok(())
        };
        for (name, text) in BUILT_IN {
            add(Path::new(name), text)?;
        }
        for path in folder.map(toml_files).transpose()?.unwrap_or_default() {
            let text = std::fs::read_to_string(&path)
                .map_err(|source| TemplateError::Unreadable { path: path.clone(), source })?;
            add(&path, &text)?;
        }
        let fixed = (language != "auto").then(|| language.to_owned());
        let templates = Self { by_language, fixed };
        templates.check(language)?;
        Ok(templates)
    }

    /// These templates in other words, and perhaps another language. A language that there is no template for yet
    /// begins as English.
    pub fn reworded(
        &self,
        patches: &BTreeMap<String, TemplatePatch>,
        language: Option<&str>,
    ) -> Result<Self, TemplateError> {
        let mut by_language = self.by_language.clone();
        for (code, patch) in patches {
            let base = by_language.get(code).or_else(|| by_language.get("en"));
            let base = base.expect("English is built in and files can only replace it");
            let template = Template { language: code.clone(), ..patch.applied_to(base) };
            by_language.insert(code.clone(), template);
        }
        let fixed = match language {
            None => self.fixed.clone(),
            Some("auto") => None,
            Some(code) => Some(code.to_owned()),
        };
        let templates = Self { by_language, fixed };
        templates.check(language.unwrap_or("auto"))?;
        Ok(templates)
    }

    fn check(&self, wanted: &str) -> Result<(), TemplateError> {
        if wanted == "auto" || self.by_language.contains_key(wanted) {
            return Ok(());
        }
        let known = self.by_language.keys().cloned().collect::<Vec<_>>().join(", ");
        Err(TemplateError::Unknown { wanted: wanted.into(), known })
    }

    /// The template for a conversation: the setting, else the language it is known to be in, else
    /// the one its words show, else English.
    pub fn choose(&self, known: Option<&str>, text: &str) -> &Template {
        let found = || language::detect(text, self.by_language.keys().map(String::as_str));
        let code = self.fixed.as_deref().or_else(|| known.filter(|code| self.by_language.contains_key(*code)));
        code.or_else(found)
            .and_then(|code| self.by_language.get(code))
            .or_else(|| self.by_language.get("en"))
            .expect("English is built in and files can only replace it")
    }
}

impl Default for Templates {
    fn default() -> Self {
        Self::load(None, "auto").expect("the built-in templates are valid: a test reads them")
    }
}

fn toml_files(folder: &Path) -> Result<Vec<PathBuf>, TemplateError> {
    let unreadable = |source| TemplateError::Unreadable { path: folder.into(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    const QUESTION: &str = "Wat zijn de vereisten voor werken op hoogte?";

    fn said(role: Role, text: &str) -> Message {
        Message::new(role, text, Timestamp::UNIX_EPOCH)
    }

    /// C4: the document's Dutch example.
    #[test]
    fn dutch_reads_as_in_the_document() {
        let templates = Templates::default();
        let messages = [said(Role::User, QUESTION), said(Role::Assistant, "Voor werken op hoogte gelden …")];
        assert_eq!(
            templates.choose(None, QUESTION).conversation(&messages.iter().collect::<Vec<_>>()),
            "**Eerdere gesprek:**\n\n\
             Gebruiker: \"Wat zijn de vereisten voor werken op hoogte?\"\n\n\
             Assistent: \"Voor werken op hoogte gelden …\"\n"
        );
    }

    #[test]
    fn the_language_follows_setting_then_session_then_words() {
        let code = |templates: &Templates, known, text: &str| templates.choose(known, text).language.clone();
        let auto = Templates::default();
        assert_eq!(code(&auto, None, "What are the requirements for working at height?"), "en");
        assert_eq!(code(&auto, None, "Welke producten heb je daarvoor?"), "nl");
        assert_eq!(code(&auto, Some("nl"), "ok"), "nl");
        assert_eq!(code(&auto, Some("xx"), "12345"), "en");
        assert_eq!(code(&Templates::load(None, "nl").expect("known"), Some("en"), "hello"), "nl");
        assert!(matches!(Templates::load(None, "tlh"), Err(TemplateError::Unknown { .. })));
    }

    #[test]
    fn a_folder_adds_languages_and_errors_name_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let german = BUILT_IN[0].1.replace("\"en\"", "\"de\"").replace("Earlier conversation", "Bisheriges Gespräch");
        std::fs::write(folder.path().join("de.toml"), german).expect("written");
        let templates = Templates::load(Some(folder.path()), "auto").expect("valid");
        let text = templates.choose(Some("de"), "").conversation(&[&said(Role::User, "{speaker} hallo")]);
        assert_eq!(text, "**Bisheriges Gespräch:**\n\nUser: \"{speaker} hallo\"\n");

        std::fs::write(folder.path().join("bad.toml"), "heading = 1").expect("written");
        let error = Templates::load(Some(folder.path()), "auto").expect_err("not valid").to_string();
        assert!(error.contains("bad.toml"), "{error}");
    }

    #[test]
    fn a_tenant_may_have_words_of_its_own() {
        let patch = TemplatePatch { system: Some("You sell tea.".into()), ..TemplatePatch::default() };
        let patches = BTreeMap::from([("en".to_owned(), patch.clone()), ("fr".to_owned(), patch)]);
        let templates = Templates::default().reworded(&patches, Some("fr")).expect("known");
        let french = templates.choose(Some("nl"), "Welke producten heb je daarvoor?");
        assert_eq!((french.language.as_str(), french.system(None).as_str()), ("fr", "You sell tea."));
        assert_eq!(templates.by_language["en"].heading, Templates::default().by_language["en"].heading);
        let unknown = Templates::default().reworded(&BTreeMap::new(), Some("tlh"));
        assert!(matches!(unknown, Err(TemplateError::Unknown { .. })));
    }

    #[test]
    fn the_callers_role_is_offered() {
        let templates = Templates::default();
        assert!(templates.choose(Some("en"), "").system(Some("manager")).ends_with("this role: manager."));
        assert!(!templates.choose(Some("en"), "").system(None).contains("role"));
    }
}
