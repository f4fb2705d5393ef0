//! Tables of numbers, for people and for scripts.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::cli::output;

/// A table under a title.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sheet {
    pub(crate) title: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// What stands in a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Count(usize),
    /// A number with so many digits behind the point.
    Number(f64, usize),
    Nothing,
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A share from 0 to 1, in percent.
    pub(crate) fn percent(share: f64) -> Self {
        Self::Number(100.0 * share, 1)
    }

    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number, digits) => format!("{number:.digits$}"),
            Self::Nothing => "–".into(),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Count(count) => serializer.serialize_u64(*count as u64),
            Self::Number(number, _) => serializer.serialize_f64(*number),
            Self::Nothing => serializer.serialize_none(),
        }
    }
}

impl Sheet {
    pub(crate) fn new(title: impl Into<String>, head: &[&str]) -> Self {
        Self { title: title.into(), head: head.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
    }

    fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let rule = self.head.iter().map(|_| "---".to_owned()).collect();
        let rows = self.rows.iter().map(|row| line(row.iter().map(Cell::shown).collect()));
        format!("{}\n\n{}{}{}", self.title, line(self.head.clone()), line(rule), rows.collect::<String>())
    }
}

/// A row as an object, by the names in the head.
struct Named<'a>(&'a [String], &'a [Cell]);

impl Serialize for Named<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.1.len()))?;
        for (name, cell) in self.0.iter().zip(self.1) {
            map.serialize_entry(name, cell)?;
        }
        map.end()
    }
}

impl Serialize for Sheet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows: Vec<Named<'_>> = self.rows.iter().map(|row| Named(&self.head, row)).collect();
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("title", &self.title)?;
        map.serialize_entry("rows", &rows)?;
        map.end()
    }
}

/// Prints tables as Markdown, or as JSON.
pub(crate) fn print(sheets: &[Sheet], json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&sheets);
    }
    output::say(sheets.iter().map(Sheet::markdown).collect::<Vec<_>>().join("\n").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let rows = vec![vec![Cell::text("all"), Cell::Count(3), Cell::percent(0.4567)], vec![Cell::Nothing; 3]];
        Sheet { rows, ..Sheet::new("Recall", &["set", "n", "r@1"]) }
    }

    #[test]
    fn people_read_markdown() {
        assert_eq!(
            sheet().markdown(),
            "Recall\n\n| set | n | r@1 |\n| --- | --- | --- |\n| all | 3 | 45.7 |\n| – | – | – |\n"
        );
    }

    #[test]
    fn scripts_read_objects_with_all_digits() {
        let json = serde_json::to_string(&sheet()).expect("plain values");
        assert_eq!(
            json,
            r#"{"title":"Recall","rows":[{"set":"all","n":3,"r@1":45.67},{"set":null,"n":null,"r@1":null}]}"#
        );
    }
}
