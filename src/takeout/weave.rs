//! Messages with parents to turns: a branch is visible, the others are kept, another answer to a question is another try.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Format, RevisionRecord, SessionRecord, TurnRecord};
use crate::id::{SessionId, TurnId};
use crate::message::{Message, Role};
use crate::session::{ClientIds, HistoryMode, SessionKind, TURN_MESSAGES_MAX, TurnStatus};

/// A conversation as another program has it.
#[derive(Debug)]
pub(super) struct Talk {
    pub(super) format: Format,
    /// That program's name for it.
    pub(super) key: String,
    /// The session that it is here, when that does not follow from its name.
    pub(super) session: Option<SessionId>,
    pub(super) metadata: Map<String, Value>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) updated_at: Option<Timestamp>,
    pub(super) nodes: Vec<Node>,
    /// The message that is shown last.
    pub(super) current: Option<String>,
    /// Whether that program, as a client, calls messages by the names in `nodes`.
    pub(super) names_messages: bool,
    /// What is wrong with parts of it, and what is no part of a conversation.
    pub(super) bad: Vec<(String, String)>,
    pub(super) passed: Vec<&'static str>,
}

/// A message and the one before it. What was said by nobody has no message and is stepped over.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) key: String,
    pub(super) parent: Option<String>,
    pub(super) at: Option<Timestamp>,
    pub(super) message: Option<Message>,
}

impl Talk {
    /// A conversation without anything in it.
    pub(super) fn new(format: Format, key: &str) -> Self {
        Self {
            format,
            key: key.to_owned(),
            session: None,
            metadata: Map::new(),
            created_at: None,
            updated_at: None,
            nodes: Vec::new(),
            current: None,
            names_messages: false,
            bad: Vec::new(),
            passed: Vec::new(),
        }
    }

    /// A message that was read, or word of what is wrong with it.
    pub(super) fn noted(&mut self, path: &str, read: Result<Option<Message>, String>) -> Option<Message> {
        match read {
            Ok(Some(message)) => return Some(message),
            Ok(None) => self.passed.push("nothing was said in it"),
            Err(reason) => self.bad.push((path.to_owned(), reason)),
        }
        None
    }

    fn session(&self) -> SessionId {
        self.session.unwrap_or_else(|| SessionId::imported(self.format.as_str(), &self.key))
    }
}

/// How a conversation came, as its metadata says.
pub(super) fn came_by(format: Format, key: &str, more: Map<String, Value>) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("created_via".into(), "import".into());
    metadata.insert("imported_from".into(), format.as_str().into());
    if !key.is_empty() {
        metadata.insert("source_id".into(), key.into());
    }
    metadata.extend(more);
    metadata
}

/// Makes turns of a conversation. `None` when nothing was said in it.
pub(super) fn weave(talk: Talk) -> Option<(SessionRecord, Vec<TurnRecord>)> {
    let id = talk.session();
    let Talk { format, key, metadata, created_at, updated_at, nodes, current, names_messages, .. } = talk;
    let tree = Tree::of(nodes, current.as_deref(), created_at)?;
    let turns = tree.turns(id, names_messages);
    let times = || tree.messages.iter().map(|message| message.created_at);
    let (first, last) = (times().min()?, times().max()?);
    let updated_at = updated_at.unwrap_or(last);
    let session = SessionRecord {
        id,
        kind: SessionKind::Durable,
        created_at: created_at.unwrap_or(first),
        updated_at,
        last_accessed: updated_at,
        ttl: None,
        history: HistoryMode::Server,
        next_number: 1,
        metadata: came_by(format, &key, metadata),
    };
    Some((session, turns))
}

/// How a turn that says this ended.
pub(super) fn status_of(messages: &[Message]) -> TurnStatus {
    match messages.iter().skip(1).last() {
        Some(last) if last.role == Role::Assistant && last.says_something() => TurnStatus::Complete,
        _ => TurnStatus::Partial,
    }
}

/// The messages of a conversation; each comes after its parent.
struct Tree {
    keys: Vec<String>,
    parents: Vec<Option<usize>>,
    messages: Vec<Message>,
    /// Whether a message leads to the one that is shown last.
    on_path: Vec<bool>,
}

impl Tree {
    fn of(nodes: Vec<Node>, current: Option<&str>, begun: Option<Timestamp>) -> Option<Self> {
        let anchors = Anchors::of(&nodes);
        let order = order(&anchors.parents(&nodes));
        let mut place = vec![usize::MAX; nodes.len()];
        order.iter().enumerate().for_each(|(at, node)| place[*node] = at);
        let current = current.and_then(|key| anchors.nearest(&nodes, key)).map(|node| place[node]);
        let parents: Vec<Option<usize>> = order
            .iter()
            .map(|node| anchors.above(*node).map(|parent| place[parent]))
            .enumerate()
            .map(|(at, parent)| parent.filter(|parent| *parent < at))
            .collect();
        let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
        let (mut keys, mut messages) = (Vec::new(), Vec::<Message>::new());
        for (at, node) in order.iter().enumerate() {
            let Node { key, at: said_at, message, .. } = nodes[*node].take()?;
            let before = parents[at].map(|parent| messages[parent].created_at);
            let created_at = said_at.or(before).or(begun).unwrap_or(Timestamp::UNIX_EPOCH);
            messages.push(Message { created_at, ..message? });
            keys.push(key);
        }
        let mut tree = Self { on_path: vec![false; keys.len()], keys, parents, messages };
        let newest = || (0..tree.keys.len()).max_by_key(|at| (tree.messages[*at].created_at, *at));
        let mut step = current.or_else(newest);
        step?;
        while let Some(at) = step {
            tree.on_path[at] = true;
            step = tree.parents[at];
        }
        Some(tree)
    }

    /// The turns in the order in which they were opened; each comes after its parent.
    fn turns(&self, session: SessionId, named: bool) -> Vec<TurnRecord> {
        let turn_of = self.turn_of();
        let openings: Vec<usize> = (0..self.keys.len()).filter(|at| turn_of[*at] == *at).collect();
        let leaves = self.leaves(&turn_of);
        let id = |at: usize| TurnId::imported(self.messages[at].created_at, session, &self.keys[at]);
        let above = |at: usize| self.parents[at].map(|parent| turn_of[parent]);
        let mut below: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut ready = BinaryHeap::new();
        for opening in &openings {
            match above(*opening) {
                Some(parent) => below.entry(parent).or_default().push(*opening),
                None => ready.push(Reverse((self.messages[*opening].created_at, *opening))),
            }
        }
        let mut turns = Vec::with_capacity(openings.len());
        while let Some(Reverse((_, opening))) = ready.pop() {
            let next = below.remove(&opening).unwrap_or_default();
            ready.extend(next.into_iter().map(|next| Reverse((self.messages[next].created_at, next))));
            let tries = self.tries(opening, leaves.get(&opening).map_or(&[], Vec::as_slice));
            turns.push(self.turn(opening, id(opening), above(opening).map(id), tries, named));
        }
        turns
    }

    /// The opening of the turn that each message is in. A user's message opens one, and so does what stands alone.
    fn turn_of(&self) -> Vec<usize> {
        let (mut turn_of, mut depth): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for (at, message) in self.messages.iter().enumerate() {
            match self.parents[at] {
                Some(parent) if message.role != Role::User && depth[parent] + 1 < TURN_MESSAGES_MAX => {
                    turn_of.push(turn_of[parent]);
                    depth.push(depth[parent] + 1);
                }
                _ => {
                    turn_of.push(at);
                    depth.push(0);
                }
            }
        }
        turn_of
    }

    /// The last message of every try at an answer, by turn.
    fn leaves(&self, turn_of: &[usize]) -> HashMap<usize, Vec<usize>> {
        let mut goes_on = vec![false; self.keys.len()];
        for at in 0..self.keys.len() {
            if let Some(parent) = self.parents[at].filter(|parent| turn_of[*parent] == turn_of[at]) {
                goes_on[parent] = true;
            }
        }
        let mut leaves: HashMap<usize, Vec<usize>> = HashMap::new();
        for at in (0..self.keys.len()).filter(|at| !goes_on[*at] && turn_of[*at] != *at) {
            leaves.entry(turn_of[at]).or_default().push(at);
        }
        leaves
    }

    /// Every try at an answer as its messages, the oldest first.
    fn tries(&self, opening: usize, leaves: &[usize]) -> Vec<Vec<usize>> {
        let path = |leaf: &usize| {
            let mut path: Vec<usize> =
                std::iter::successors(Some(*leaf), |at| self.parents[*at]).take_while(|at| *at != opening).collect();
            path.reverse();
            path
        };
        let mut tries: Vec<Vec<usize>> = leaves.iter().map(path).collect();
        tries.sort_by_key(|path| path.first().map(|first| (self.messages[*first].created_at, *first)));
        tries
    }

    fn turn(
        &self,
        opening: usize,
        id: TurnId,
        parent: Option<TurnId>,
        tries: Vec<Vec<usize>>,
        named: bool,
    ) -> TurnRecord {
        let weight = |path: &Vec<usize>| {
            let shown = path.iter().filter(|at| self.on_path[**at]).count();
            (shown, path.last().map(|last| (self.messages[*last].created_at, *last)))
        };
        let shown = (0..tries.len()).max_by_key(|n| weight(&tries[*n]));
        let said = |path: &[usize]| path.iter().map(|at| self.messages[*at].clone()).collect::<Vec<_>>();
        let mut messages = vec![self.messages[opening].clone()];
        messages.extend(shown.map(|n| said(&tries[n])).unwrap_or_default());
        let others = tries.iter().enumerate().filter(|(n, _)| Some(*n) != shown);
        let revisions = others.map(|(n, path)| RevisionRecord {
            attempt: n as u32,
            status: status_of(&[&messages[..1], &said(path)].concat()),
            created_at: path.last().map_or(messages[0].created_at, |last| self.messages[*last].created_at),
            messages: said(path),
            client: self.client(named, opening, path),
        });
        TurnRecord {
            id,
            number: None,
            parent,
            status: status_of(&messages),
            superseded: !self.on_path[opening],
            created_at: messages[0].created_at,
            revisions: revisions.collect(),
            metadata: Map::from_iter([("source_id".to_owned(), self.keys[opening].as_str().into())]),
            attempt: shown.unwrap_or(0) as u32,
            client: self.client(named, opening, shown.map_or(&[], |n| &tries[n])),
            topic: None,
            messages,
        }
    }

    fn client(&self, named: bool, opening: usize, path: &[usize]) -> ClientIds {
        if !named {
            return ClientIds::default();
        }
        let answer = path.last().filter(|at| self.messages[**at].role == Role::Assistant);
        ClientIds {
            question: Some(self.keys[opening].clone()),
            answer: answer.map(|at| self.keys[*at].clone()),
            ..ClientIds::default()
        }
    }
}

/// The nearest message above each node, stepping over those that nobody said.
struct Anchors {
    above: Vec<Option<usize>>,
    index: HashMap<String, usize>,
}

impl Anchors {
    fn of(nodes: &[Node]) -> Self {
        let mut index = HashMap::with_capacity(nodes.len());
        nodes.iter().enumerate().for_each(|(at, node)| {
            index.entry(node.key.clone()).or_insert(at);
        });
        let parent = |at: usize| nodes[at].parent.as_ref().and_then(|key| index.get(key)).copied();
        let mut known: Vec<Option<Option<usize>>> = vec![None; nodes.len()];
        for at in 0..nodes.len() {
            let (mut walked, mut step) = (vec![at], parent(at));
            let found = loop {
                match step {
                    Some(up) if nodes[up].message.is_some() => break Some(up),
                    // A ring of nodes leads nowhere.
                    Some(up) if walked.len() <= nodes.len() => match known[up] {
                        Some(found) => break found,
                        None => {
                            walked.push(up);
                            step = parent(up);
                        }
                    },
                    _ => break None,
                }
            };
            walked.into_iter().for_each(|at| known[at] = Some(found));
        }
        Self { above: known.into_iter().map(Option::flatten).collect(), index }
    }

    fn above(&self, node: usize) -> Option<usize> {
        self.above[node]
    }

    /// The message that a key leads to.
    fn nearest(&self, nodes: &[Node], key: &str) -> Option<usize> {
        let at = *self.index.get(key)?;
        if nodes[at].message.is_some() { Some(at) } else { self.above[at] }
    }

    /// The messages with their parents; the others are left out.
    fn parents(&self, nodes: &[Node]) -> Vec<(bool, Option<usize>)> {
        nodes.iter().zip(&self.above).map(|(node, above)| (node.message.is_some(), *above)).collect()
    }
}

/// Messages in an order in which each comes after its parent. Those in a ring begin where the file has them first.
fn order(nodes: &[(bool, Option<usize>)]) -> Vec<usize> {
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (at, (kept, parent)) in nodes.iter().enumerate() {
        if let (true, Some(parent)) = (kept, parent) {
            below[*parent].push(at);
        }
    }
    let (mut seen, mut order) = (vec![false; nodes.len()], Vec::new());
    let roots = (0..nodes.len()).filter(|at| nodes[*at] == (true, None));
    let rings = (0..nodes.len()).filter(|at| nodes[*at].0);
    for root in roots.chain(rings) {
        let mut next = std::collections::VecDeque::from([root]);
        while let Some(at) = next.pop_front() {
            if !std::mem::replace(&mut seen[at], true) {
                order.push(at);
                next.extend(&below[at]);
            }
        }
    }
    order
}
