//! Long JSON lists, element by element: a file of any size takes the memory of its longest conversation.

use std::fmt;
use std::io::BufRead;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::weave::{Talk, weave};
use super::{Found, Line, ReadError, Taker};

/// Reads conversations, each with a function of its format.
pub(super) fn conversations(
    input: impl BufRead,
    lists: &[&str],
    talk: fn(Value) -> Result<Talk, String>,
    taker: Taker<'_>,
) -> Result<(), ReadError> {
    elements(input, lists, &mut |element| match talk(element.value) {
        Ok(talk) => hand_over(&element.at, talk, taker),
        Err(reason) => taker(Found::Bad(element.at, reason)),
    })
}

fn hand_over(at: &str, mut talk: Talk, taker: Taker<'_>) -> bool {
    let bad = std::mem::take(&mut talk.bad);
    let passed = std::mem::take(&mut talk.passed);
    let aside = bad.into_iter().map(|(path, reason)| Found::Bad(format!("{at}{path}"), reason));
    if !aside.chain(passed.into_iter().map(Found::Passed)).all(&mut *taker) {
        return false;
    }
    let Some((session, turns)) = weave(talk) else { return taker(Found::Passed("conversation without messages")) };
    let id = session.id;
    let lines = turns.into_iter().map(|turn| Line::Turn(id, turn));
    let mut lines = std::iter::once(Line::Session(None, session)).chain(lines);
    lines.all(|line| taker(Found::Line(at.to_owned(), Box::new(line))))
}

/// An element of a list, and where it stands.
pub(super) struct Element<'a> {
    pub(super) at: String,
    pub(super) value: Value,
    /// What was said about the list before it.
    pub(super) about: &'a Map<String, Value>,
}

/// Reads the elements of a list: the file is one, has one under one of these names, or is a row of values.
pub(super) fn elements(
    input: impl BufRead,
    lists: &[&str],
    each: &mut dyn FnMut(Element<'_>) -> bool,
) -> Result<(), ReadError> {
    let mut json = serde_json::Deserializer::from_reader(input);
    let mut state = State { lists, each, stopped: false, count: 0 };
    loop {
        match (Top { state: &mut state }).deserialize(&mut json) {
            Ok(()) => {}
            Err(_) if state.stopped => return Ok(()),
            Err(error) if error.is_io() => return Err(ReadError::Io(error.to_string())),
            Err(error) => return Err(ReadError::Broken(error.to_string())),
        }
        if json.end().is_ok() {
            return Ok(());
        }
    }
}

struct State<'a> {
    lists: &'a [&'a str],
    each: &'a mut dyn FnMut(Element<'_>) -> bool,
    stopped: bool,
    count: usize,
}

impl State<'_> {
    fn take<E: de::Error>(&mut self, at: String, value: Value, about: &Map<String, Value>) -> Result<(), E> {
        self.count += 1;
        if (self.each)(Element { at, value, about }) {
            return Ok(());
        }
        self.stopped = true;
        Err(E::custom("enough was read"))
    }
}

/// A whole value of the file.
struct Top<'s, 'a> {
    state: &'s mut State<'a>,
}

impl<'de> DeserializeSeed<'de> for Top<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Top<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        List { state: self.state, name: "", about: &Map::new() }.visit_seq(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let (mut about, mut listed) = (Map::new(), false);
        while let Some(name) = fields.next_key::<String>()? {
            if self.state.lists.contains(&name.as_str()) {
                listed = true;
                fields.next_value_seed(List { state: self.state, name: &name, about: &about })?;
            } else {
                about.insert(name, fields.next_value()?);
            }
        }
        if listed { Ok(()) } else { self.state.take(format!("[{}]", self.state.count), about.into(), &Map::new()) }
    }
}

/// A list in it.
struct List<'s, 'a> {
    state: &'s mut State<'a>,
    name: &'s str,
    about: &'s Map<String, Value>,
}

impl<'de> DeserializeSeed<'de> for List<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for List<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut at = 0;
        while let Some(value) = list.next_element::<Value>()? {
            self.state.take(format!("{}[{at}]", self.name), value, self.about)?;
            at += 1;
        }
        Ok(())
    }
}
