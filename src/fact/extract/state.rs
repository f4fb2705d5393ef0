//! From a match to proposals: which key, which value, how sure, since when and until when.

use std::ops::Range;

use super::Heard;
use super::clause::own_clause;
use super::frame::Frame;
use super::pattern::Found;
use super::slot::{ANIMAL, KEY, RELATION, Slot, View};
use super::table::{Rule, Shape};
use crate::fact::canon::{ends, item};
use crate::fact::{Act, Category, Key, Proposal, Refusal, importance, is_many};
use crate::language::when;

/// How sure something is that was hedged: "I think", "maybe".
const HEDGED: f64 = 0.5;

/// Relatives of whom somebody has one; of the others each is kept by name.
const ONE_OF_THEM: [&str; 9] =
    ["mother", "father", "wife", "husband", "partner", "girlfriend", "boyfriend", "fiance", "boss"];

/// What was said, and how.
pub(super) struct Said<'s, 'v> {
    pub(super) view: &'s View<'v>,
    pub(super) rule: &'s Rule,
    pub(super) found: &'s Found,
    pub(super) frame: Frame,
    pub(super) quote: &'s str,
}

/// The facts that were stated by following a rule.
pub(super) fn proposals(said: &Said<'_, '_>, heard: &Heard<'_>) -> Result<Vec<Proposal>, Refusal> {
    if said.rule.manner.greeted && !said.frame.greets {
        return Err(Refusal::Aside);
    }
    let clause = said.view.written(own_clause(said.view, said.frame.start..said.found.at.end));
    let (tongue, at, zone) = (said.view.tongue, heard.said_at, &heard.zone);
    let brief = said.rule.manner.brief;
    let lasting = || when::lasting(clause, tongue, at, zone).filter(|_| brief);
    let until = when::until(clause, tongue, at, zone).or_else(lasting);
    if brief && until.is_none() {
        return Err(Refusal::Temporary);
    }
    let from = when::since(clause, tongue, at, zone);
    let stated = said.stated().into_iter().map(|(key, value)| Proposal {
        act: said.act(&key),
        confidence: said.confidence(),
        importance: importance(&key),
        until: until.filter(|_| brief || ends(&key)),
        key,
        value,
        from,
        quote: said.quote.to_owned(),
        forgets: said.frame.forgets || (said.rule.shape == Shape::Key && said.rule.act == Act::End),
    });
    Ok(stated.collect())
}

impl Said<'_, '_> {
    fn confidence(&self) -> f64 {
        match self.frame {
            Frame { hedges: true, .. } => HEDGED,
            Frame { notes: true, .. } => 1.0,
            _ => self.rule.sure,
        }
    }

    fn act(&self, key: &Key) -> Act {
        let view = self.view;
        let changed = || {
            let near = self.frame.start..view.words.len().min(self.found.at.end + 2);
            let settled = key.category != Category::Instruction && !is_many(key.category, &key.name);
            let near = &view.words[near];
            settled && view.table.now.are_in(near) && !view.table.not_now.are_in(near)
        };
        match self.rule.act {
            Act::State if self.frame.ends => Act::End,
            Act::State if self.frame.corrects || changed() => Act::Correct,
            act => act,
        }
    }

    /// Keys and values, one for each value of a list.
    fn stated(&self) -> Vec<(Key, String)> {
        match self.rule.shape {
            Shape::Plain => self.plain(),
            Shape::Relative => self.relative().into_iter().collect(),
            Shape::Pet => self.pet().into_iter().collect(),
            Shape::Key => self.named_key().into_iter().collect(),
        }
    }

    fn plain(&self) -> Vec<(Key, String)> {
        let rule = self.rule;
        let main = main_slot(&rule.value).unwrap_or(self.found.held.len());
        let values = self.found.held.get(main.wrapping_sub(1)).map_or(&[][..], |(_, values)| values);
        let all = values.iter().map(|value| {
            let text = clean(self.view, value.clone());
            let value = if rule.value.is_empty() { text } else { self.filled(&rule.value, main, &text) };
            let named = if rule.item.is_empty() { value.clone() } else { self.filled(&rule.item, main, &value) };
            (self.key(&self.undear(&named)), value)
        });
        let bare =
            values.is_empty().then(|| (self.key(&self.filled(&rule.item, 0, "")), self.filled(&rule.value, 0, "")));
        all.chain(bare).filter(|(_, value)| !value.is_empty() || rule.act == Act::End).collect()
    }

    fn key(&self, named: &str) -> Key {
        let rule = self.rule;
        match is_many(rule.category, &rule.name) {
            true if named.is_empty() => Key::single(rule.category, &rule.name),
            true => Key::of_many(rule.category, &rule.name, &item(named)),
            false => Key::single(rule.category, &rule.name),
        }
    }

    /// `lievelingskleur` is a `kleur`.
    fn undear(&self, named: &str) -> String {
        let named = named.to_lowercase();
        named.strip_prefix(&self.view.table.dear).map_or_else(|| named.clone(), str::to_owned)
    }

    /// A template with `{1}`, `{2}` … for what the slots hold.
    fn filled(&self, template: &str, main: usize, value: &str) -> String {
        let mut filled = template.to_owned();
        if filled.contains("{0}") {
            filled = filled.replace("{0}", &clean(self.view, self.found.at.start..self.last_value_end()));
        }
        for (number, (_, values)) in self.found.held.iter().enumerate() {
            let holds = match values.first() {
                _ if number + 1 == main => value.to_owned(),
                Some(first) => clean(self.view, first.clone()),
                None => String::new(),
            };
            filled = filled.replace(&format!("{{{}}}", number + 1), &holds);
        }
        filled
    }

    /// Where the last value ends: a match may reach over what was cut off it.
    fn last_value_end(&self) -> usize {
        let last = self.found.held.last().and_then(|(_, values)| values.last());
        last.map_or(self.found.at.end, |value| value.end)
    }

    fn slot(&self, is: impl Fn(&Slot) -> bool) -> Option<Range<usize>> {
        self.found.held.iter().find(|(slot, _)| is(slot)).and_then(|(_, values)| values.first().cloned())
    }

    fn name(&self) -> Option<String> {
        self.slot(|slot| matches!(slot, Slot::Name | Slot::Proper | Slot::Nick)).map(|at| clean(self.view, at))
    }

    /// A relative: by relation where there is one of them, by name where there may be several.
    fn relative(&self) -> Option<(Key, String)> {
        let at = self.slot(|slot| *slot == Slot::Listed(RELATION.to_owned()))?;
        let word = self.view.word(at.start);
        let relation = self.view.table.relations.get(word)?;
        let one = ONE_OF_THEM.contains(&relation.as_str());
        let family = |named: String| Key::of_many(Category::Identity, "family", &named);
        let job = self.slot(|slot| *slot == Slot::Job).map(|at| clean(self.view, at));
        match (self.name(), job) {
            (Some(name), None) if !one => Some((family(item(&name)), format!("{name} ({word})"))),
            (Some(name), None) => Some((family(item(relation)), name)),
            (Some(name), Some(job)) if !one => Some((family(format!("{}/job", item(&name))), job)),
            (_, Some(job)) => Some((family(format!("{}/job", item(relation))), job)),
            (None, None) if self.rule.act == Act::End => Some((family(item(relation)), String::new())),
            (None, None) => Some((family(item(relation)), self.counted(at))),
        }
    }

    fn pet(&self) -> Option<(Key, String)> {
        let at = self.slot(|slot| *slot == Slot::Listed(ANIMAL.to_owned()));
        let pet = |named: &str| Key::of_many(Category::Identity, "pet", &item(named));
        match (self.name(), at) {
            (Some(name), _) if self.rule.act == Act::End => Some((pet(&name), String::new())),
            (Some(name), Some(at)) => Some((pet(&name), format!("{name} ({})", clean(self.view, at)))),
            (Some(name), None) => Some((pet(&name), name)),
            (None, Some(at)) if self.rule.act == Act::End => Some((pet(&clean(self.view, at)), String::new())),
            (None, Some(at)) => Some((pet(&clean(self.view, at.clone())), self.counted(at))),
            (None, None) => None,
        }
    }

    /// "two kids": with how many, without an article.
    fn counted(&self, at: Range<usize>) -> String {
        let count = self.slot(|slot| *slot == Slot::Count);
        let counts = count.filter(|count| !self.view.table.articles.contains(self.view.word(count.start)));
        clean(self.view, counts.map_or(at.start, |count| count.start)..at.end)
    }

    fn named_key(&self) -> Option<(Key, String)> {
        let at = self.slot(|slot| *slot == Slot::Listed(KEY.to_owned()))?;
        let (category, path) = self.view.table.keys.get(self.view.word(at.start))?.split_once('/')?;
        Some((Key::from_path(Category::parse(category)?, path), String::new()))
    }
}

/// The first slot that a template names, from 1.
fn main_slot(template: &str) -> Option<usize> {
    let (_, rest) = template.split_once('{')?;
    rest.split_once('}')?.0.parse().ok().filter(|slot| 0 < *slot)
}

/// A value as it was written, with what belongs to its last word (`C++`, `UTC+1`) and without what does not.
fn clean(view: &View<'_>, words: Range<usize>) -> String {
    let Some(last) = words.end.checked_sub(1).and_then(|last| view.words.get(last)) else { return String::new() };
    let Some(first) = view.words.get(words.start) else { return String::new() };
    let after = &view.text[last.at.end..];
    let signed = after.len() - after.trim_start_matches(['+', '#']).len();
    let digits = after[signed..].len() - after[signed..].trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let end = last.at.end + if 0 < signed { signed + digits } else { 0 };
    let before = &view.text[..first.at.start];
    let sign =
        before.chars().next_back().filter(|c| matches!(c, '$' | '€' | '£' | '¥' | '@')).map_or(0, char::len_utf8);
    let written = &view.text[first.at.start - sign..end.max(first.at.start)];
    let money = after.trim_start().chars().next().filter(|c| matches!(c, '$' | '€' | '£')).filter(|_| sign == 0);
    let has_number = written.ends_with(|c: char| c.is_ascii_digit());
    let mut value = written.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(money) = money.filter(|_| has_number) {
        value.push(money);
    }
    value.trim_matches(|c: char| matches!(c, '"' | '\'' | '“' | '”' | '*' | '_' | '`')).to_owned()
}
