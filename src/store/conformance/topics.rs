//! Which topics there are, which turns belong to them, and what becomes of that.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::Talk;
use super::following::{Course, Dice};
use super::talk::{assistant, at, draft, expire, turn_id};
use crate::id::{Ids, RandomIds, TopicId, TurnId};
use crate::language::Tongue;
use crate::message::Message;
use crate::period::{Period, Ttl};
use crate::scope::Scope;
use crate::session::{ClosedTurn, InTopic, OpenTurn, Shift, Turn, TurnStatus};
use crate::store::{
    DerivedTopic, Faded, KeptTopic, Moment, PageRequest, PlacedTurn, SketchedTopic, Store, TopicMerge, TopicPatch,
    WhichTopics,
};
use crate::topic::{Feedback, Remark, Sketch, Speaker};

fn topic_id() -> TopicId {
    RandomIds.topic(Timestamp::UNIX_EPOCH)
}

fn begins(title: &str) -> InTopic {
    InTopic { id: topic_id(), begins: Some(title.to_owned()) }
}

pub(super) fn joins(id: TopicId) -> InTopic {
    InTopic { id, begins: None }
}

fn sketch(text: &str) -> Sketch {
    let mut sketch = Sketch::default();
    sketch.take_in(&Remark::read(text, Tongue::English), Speaker::User);
    sketch
}

impl Talk {
    async fn end_in(&self, id: TurnId, status: TurnStatus, topic: InTopic) {
        let ending = self.ending(id, status, vec![assistant("so")]);
        self.try_close(ClosedTurn { topic: Some(topic), ..ending }).await.expect("the ending is written");
    }

    /// A question and its answer in a topic.
    pub(super) async fn exchange_in(&self, question: &str, topic: InTopic) -> TurnId {
        let id = self.ask(question).await;
        self.end_in(id, TurnStatus::Complete, topic).await;
        id
    }

    /// A topic that begins with this question.
    pub(super) async fn begin(&self, question: &str) -> TopicId {
        let topic = begins(question);
        let id = topic.id;
        self.exchange_in(question, topic).await;
        id
    }

    pub(super) async fn topic(&self, id: TopicId) -> Option<KeptTopic> {
        self.store.topics().topic_kept(&self.scope, id).await.expect("the topic is looked up")
    }

    async fn list(&self, forgotten: bool) -> Vec<KeptTopic> {
        let which = WhichTopics { limit: 1_000, forgotten, ..WhichTopics::default() };
        self.store.topics().topics_kept(&self.scope, which).await.expect("topics are listed").items
    }

    async fn sketched(&self, id: TopicId) -> SketchedTopic {
        let found = self.store.topics().topic_sketches(&self.scope, &[id], &[]).await.expect("sketches are read");
        found.into_iter().next().expect("the topic is there")
    }

    async fn topic_turns(&self, id: TopicId) -> Vec<Turn> {
        let (mut all, mut page) = (Vec::new(), PageRequest::first(3));
        loop {
            let turns = self.store.topics().topic_turns(&self.scope, id, true, page).await.expect("the turns are read");
            let Some(turns) = turns else { return all };
            all.extend(turns.items.into_iter().map(|(_, turn)| turn));
            page.after = turns.next;
            if page.after.is_none() {
                return all;
            }
        }
    }

    /// What the background does with a topic.
    pub(super) async fn learn(&self, id: TopicId, words: &str) -> bool {
        let SketchedTopic { version, untaken, .. } = self.sketched(id).await;
        let taken = untaken.into_iter().map(|untaken| untaken.id).collect();
        let derived = DerivedTopic { id, version, sketch: sketch(words), taken };
        self.store.topics().keep_topic(&self.scope, derived).await.expect("the sketch is written")
    }

    /// Forgets a topic as it is.
    async fn forget(&self, id: TopicId) -> Vec<TopicId> {
        let last_used = self.topic(id).await.expect("the topic is there").topic.last_used;
        let faded = [Faded { id, last_used }];
        self.store.topics().forget_topics(&self.scope, &faded, at_noon()).await.expect("forgotten")
    }

    async fn is_due(&self, id: TopicId) -> bool {
        let due = self.store.topics().topics_due(1_000).await.expect("topics are listed");
        due.contains(&(self.scope.clone(), id))
    }
}

async fn todo(store: &Arc<dyn Store>) -> Vec<TurnId> {
    store.topics().topic_todo(10_000).await.expect("the list").into_iter().map(|due| due.turn.id).collect()
}

/// With its ending a turn begins a topic or joins one; messages are counted, and coming back is an access.
pub async fn a_turn_joins_its_topic_when_it_closes(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.begin("Which paint for the shed?").await;
    let first = talk.topic(id).await.expect("the topic is there").topic;
    assert_eq!((first.title.as_str(), first.messages, first.accesses), ("Which paint for the shed?", 2, 0));
    talk.exchange_in("And for the fence?", joins(id)).await;
    let both = talk.topic(id).await.expect("the topic is there").topic;
    assert_eq!((both.messages, both.accesses, both.created_at), (4, 1, first.created_at));
    assert!(both.last_used > first.last_used);
    assert_eq!(talk.topic_turns(id).await.len(), 2);
    assert!(todo(&store).await.is_empty());
    let untaken = talk.sketched(id).await.untaken;
    assert_eq!(untaken.len(), 2, "the sketch does not know them yet");
    assert!(talk.is_due(id).await);
}

/// A turn that nobody placed is listed until somebody does. What was placed from an older state is passed over.
pub async fn turns_without_a_topic_are_listed(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let closed = talk.exchange("Which paint?", "Green.").await;
    let added = talk.add(vec![draft("And the fence?", "White.")]).await.remove(0).id;
    talk.ask("pending").await;
    let lost = talk.exchange_in("To a topic that is gone", joins(topic_id())).await;
    assert_eq!(todo(&store).await, [closed, added, lost]);

    let due = store.topics().topic_todo(10).await.expect("the list");
    let topic = begins("Paint");
    let placed = |n: usize, topic: &InTopic| PlacedTurn {
        scope: due[n].scope.clone(),
        turn: due[n].turn.id,
        stamp: due[n].stamp,
        topic: topic.clone(),
    };
    let stale = PlacedTurn { stamp: due[0].stamp, ..placed(1, &topic) };
    let all = vec![placed(0, &topic), stale, placed(2, &joins(topic.id))];
    store.topics().place_turns(all.clone()).await.expect("turns are placed");
    assert_eq!(todo(&store).await, [added]);
    store.topics().place_turns(all).await.expect("twice is harmless");
    let kept = talk.topic(topic.id).await.expect("the topic is there").topic;
    assert_eq!((kept.messages, kept.accesses), (4, 1));
    let found = store.topics().topics_of(&talk.scope, &[closed, added, lost]).await.expect("looked up");
    assert_eq!(found, [(closed, topic.id), (lost, topic.id)]);
}

/// A topic that loses turns forgets their words at once, and is made anew from those that stay.
pub async fn a_topic_that_loses_turns_is_made_anew(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let other = talk.another();
    let id = talk.begin("My secret is a blue door").await;
    other.exchange_in("What colour was it?", joins(id)).await;
    assert!(talk.learn(id, "secret").await && !talk.is_due(id).await);
    talk.delete().await.expect("the session was there");

    let left = talk.topic(id).await.expect("one turn stays").topic;
    assert_eq!((left.title.as_str(), left.messages), ("", 2));
    let sketched = talk.sketched(id).await;
    assert_eq!((sketched.stale, sketched.sketch), (true, Sketch::default()));
    assert!(talk.is_due(id).await);
    assert!(store.topics().remake_topic(&talk.scope, id).await.expect("made anew"));
    assert_eq!(talk.topic(id).await.expect("it is there").topic.title, "What colour was it?");
    let sketched = talk.sketched(id).await;
    assert_eq!((sketched.stale, sketched.untaken.len()), (false, 1));

    // A name that a person gave outlives the turns.
    let patch = TopicPatch { title: Some("Doors".into()), ..TopicPatch::default() };
    store.topics().change_topic(&talk.scope, id, patch).await.expect("changed").expect("it is there");
    other.another().exchange_in("And the windows?", joins(id)).await;
    other.delete().await.expect("the session was there");
    assert_eq!(talk.topic(id).await.expect("it is there").topic.title, "Doors");
}

/// A topic goes with its last turn, by whatever way that goes.
pub async fn an_emptied_topic_goes(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let deleted = talk.begin("Paint").await;
    talk.delete().await.expect("the session was there");
    assert_eq!(talk.topic(deleted).await, None);
    let talk = talk.another();
    let expired = talk.begin("Trains").await;
    expire(&store, Timestamp::MAX, Ttl::of(Period::seconds(1)), 100).await;
    assert_eq!((talk.topic(expired).await, talk.list(true).await), (None, Vec::new()));
}

/// Turns that an edit replaced leave their topic; shown again they are to be placed again.
pub async fn hidden_and_failed_turns_leave_their_topic(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.begin("Which paint?").await;
    let second = talk.exchange_in("And the fence?", joins(id)).await;
    talk.ask_with("And the gate?", Shift { hide: vec![2], ..Shift::default() }).await;
    assert_eq!(talk.topic(id).await.expect("it is there").topic.messages, 2);
    assert!(todo(&store).await.is_empty());
    talk.ask_with("Back again", Shift { show: vec![2], ..Shift::default() }).await;
    assert_eq!(todo(&store).await, [second]);
    let failed = talk.ask("No answer").await;
    talk.end_in(failed, TurnStatus::Failed, joins(id)).await;
    assert_eq!((talk.topic(id).await.expect("it is there").topic.messages, todo(&store).await), (2, vec![second]));
}

/// Another try at an answer does not cost a turn its topic; what was learned from the last one is learned anew.
pub async fn a_turn_answered_again_stays_and_is_learned_anew(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let topic = begins("Which paint?");
    let turn = talk.exchange_in("Which paint?", topic.clone()).await;
    assert!(talk.learn(topic.id, "paint").await);
    let attempt = talk.revise_with(turn, Shift::default()).await.expect("another try");
    assert_eq!(talk.topic(topic.id).await.expect("it stays").topic.messages, 1);
    let ending = talk.ending(turn, TurnStatus::Complete, vec![assistant("Blue.")]);
    let ending = ClosedTurn { attempt, topic: Some(begins("another")), ..ending };
    talk.try_close(ending).await.expect("the ending is written");
    let kept = talk.topic(topic.id).await.expect("it stays").topic;
    assert_eq!((kept.messages, kept.accesses, talk.list(true).await.len()), (2, 0, 1));
    assert!(talk.sketched(topic.id).await.stale && talk.is_due(topic.id).await);
}

/// What was derived from a topic that changed meanwhile is not kept.
pub async fn a_sketch_is_kept_of_the_topic_as_it_is(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.begin("Which paint?").await;
    let before = talk.sketched(id).await;
    let second = talk.exchange_in("And the fence?", joins(id)).await;
    let known: Vec<_> = before.untaken.iter().map(|untaken| (untaken.id, untaken.stamp)).collect();
    let read = store.topics().topic_sketches(&talk.scope, &[id], &known).await.expect("sketches are read").remove(0);
    let words: Vec<bool> = read.untaken.iter().map(|untaken| untaken.turn.is_some()).collect();
    assert_eq!((words, read.sketch_state), (vec![false, true], before.sketch_state), "known words are not read");
    let taken = before.untaken.iter().map(|untaken| untaken.id).collect();
    let late = DerivedTopic { id, version: before.version, sketch: sketch("late"), taken };
    assert!(!store.topics().keep_topic(&talk.scope, late).await.expect("looked at"));
    assert!(talk.learn(id, "paint fence").await);
    let now = talk.sketched(id).await;
    assert_ne!(now.sketch_state, before.sketch_state);
    assert_eq!((now.sketch, now.untaken.len(), now.stale), (sketch("paint fence"), 0, false));
    assert_eq!(now.last.last(), Some(&second));
    let outline = store.topics().topic_outline(&talk.scope, None).await.expect("the outline");
    assert_eq!(outline.topics, [(id, now.version)]);
}

/// A topic of many turns is learned in steps, and each but the last brings it into another state: whoever holds it should look
/// at the turns that are told next.
pub async fn a_long_topic_is_learned_in_steps(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.begin("Which paint?").await;
    for _ in 0..65 {
        talk.exchange_in("And how much of it?", joins(id)).await;
    }
    let before = talk.sketched(id).await;
    assert!(talk.learn(id, "paint").await);
    let between = talk.sketched(id).await;
    assert!(talk.learn(id, "paint tin").await);
    let after = talk.sketched(id).await;
    assert_eq!((before.untaken.len(), between.untaken.len(), after.untaken.len()), (64, 2, 0));
    assert!(before.version < between.version);
    assert_eq!(between.version, after.version);
}

/// The running topic of a conversation is that of its last turn that has one, or of the one before a turn.
pub async fn a_conversation_is_in_the_topic_of_its_last_turn(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let paint = talk.begin("Which paint?").await;
    let trains = talk.begin("Which train?").await;
    talk.another().exchange_in("Elsewhere", joins(paint)).await;
    talk.ask("pending").await;
    let current = async |before| {
        let at = Moment { session: talk.session, before };
        store.topics().topic_outline(&talk.scope, Some(at)).await.expect("the outline").current
    };
    assert_eq!(
        (current(None).await, current(Some(2)).await, current(Some(1)).await),
        (Some(trains), Some(paint), None)
    );
    let at = Moment { session: talk.another().session, before: None };
    let outline = store.topics().topic_outline(&talk.scope, Some(at)).await.expect("the outline");
    assert_eq!((outline.current, outline.topics.len()), (None, 2));
    assert_eq!(outline.topics[0].0, paint, "the last used comes first");
}

/// Whatever is asked about somebody else's topic is answered as if there were none, and changes nothing.
pub async fn a_foreign_topic_is_as_good_as_unknown(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.begin("Which paint?").await;
    let turn = talk.topic_turns(id).await.remove(0).id;
    let before = (talk.topic(id).await, talk.sketched(id).await);
    for foreign in [talk.of("acme", "bob"), talk.of("other", "ann")] {
        let (topics, scope) = (store.topics(), &foreign.scope);
        assert_eq!((foreign.topic(id).await, foreign.list(true).await), (None, Vec::new()));
        let patch = TopicPatch { title: Some("Mine".into()), feedback: Some(Feedback::Up), ..TopicPatch::default() };
        assert_eq!(topics.change_topic(scope, id, patch).await.expect("looked up"), None);
        assert_eq!(topics.topic_turns(scope, id, true, PageRequest::first(9)).await.expect("looked up"), None);
        assert_eq!(topics.last_topic_turns(scope, id, 9).await.expect("looked up"), None);
        assert_eq!(topics.topic_sketches(scope, &[id], &[]).await.expect("looked up"), []);
        assert_eq!(topics.topics_of(scope, &[turn]).await.expect("looked up"), []);
        let at = Moment { session: talk.session, before: None };
        assert_eq!(topics.topic_outline(scope, Some(at)).await.expect("looked up"), Default::default());
        let faded = Faded { id, last_used: before.0.as_ref().expect("it is there").topic.last_used };
        assert_eq!(topics.forget_topics(scope, &[faded], at_noon()).await.expect("looked up"), []);
        assert!(!topics.remake_topic(scope, id).await.expect("looked up"));
        let (version, sketch) = (before.1.version, sketch("mine"));
        let derived = DerivedTopic { id, version, sketch: sketch.clone(), taken: vec![turn] };
        assert!(!topics.keep_topic(scope, derived).await.expect("looked up"));
        let mine = foreign.another().begin("Mine").await;
        let merge = TopicMerge { into: (mine, 0), from: (id, version), sketch };
        assert!(!topics.merge_topics(scope, merge).await.expect("looked up"));
        // Joining it leaves the turn for later; beginning one of the same id is one's own.
        foreign.another().exchange_in("Theirs", joins(id)).await;
        assert_eq!(talk.topic_turns(id).await.len(), 1);
    }
    assert_eq!((talk.topic(id).await, talk.sketched(id).await), before);
}

fn at_noon() -> Timestamp {
    at(0)
}

/// Of two topics one stays, with the turns, tags and accesses of both; the other's id finds it.
pub async fn two_topics_become_one(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let (into, from) = (talk.begin("Which paint?").await, talk.begin("Which brush?").await);
    for (id, tag) in [(into, "shed"), (from, "tools")] {
        talk.exchange_in("more", joins(id)).await;
        let patch = TopicPatch { tags: Some(vec![tag.to_owned(), "all".to_owned()]), ..TopicPatch::default() };
        store.topics().change_topic(&talk.scope, id, patch).await.expect("changed");
    }
    let state = async || (talk.sketched(into).await.version, talk.sketched(from).await.version);
    let merge = async |(a, b)| {
        let merge = TopicMerge { into: (into, a), from: (from, b), sketch: sketch("both") };
        store.topics().merge_topics(&talk.scope, merge).await.expect("looked at")
    };
    assert!(!merge(state().await).await, "what a sketch does not know is learned first");
    assert!(talk.learn(into, "paint").await && talk.learn(from, "brush").await);
    let (a, b) = state().await;
    assert!(!merge((a, b + 1)).await && merge((a, b)).await && !merge((a, b)).await);

    let kept = talk.topic(from).await.expect("found under the other").topic;
    assert_eq!((kept.id, kept.title.as_str(), kept.messages, kept.accesses), (into, "Which paint?", 8, 2));
    assert_eq!(kept.tags, ["shed", "all", "tools"]);
    assert_eq!((talk.list(true).await.len(), talk.topic_turns(from).await.len()), (1, 4));
    assert_eq!(talk.sketched(into).await.sketch, sketch("both"));
    talk.exchange_in("late", joins(from)).await;
    assert_eq!((talk.topic(into).await.expect("it is there").topic.messages, todo(&store).await), (10, vec![]));
    talk.delete().await.expect("the session was there");
    assert_eq!((talk.topic(from).await, talk.topic(into).await), (None, None));
}

/// What people said of either of two topics holds for the one they become: a name, if the older has none of its own, and all
/// that was said of their worth.
pub async fn what_people_said_outlives_a_merge(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let other = talk.another();
    let into = talk.begin("Which paint?").await;
    let say = async |id, title: Option<&str>, feedback| {
        let patch = TopicPatch { title: title.map(str::to_owned), feedback, ..TopicPatch::default() };
        store.topics().change_topic(&talk.scope, id, patch).await.expect("changed");
    };
    let merge = async |from| {
        assert!(talk.learn(into, "paint").await && talk.learn(from, "brush").await);
        let state = async |id| (id, talk.sketched(id).await.version);
        let merge = TopicMerge { into: state(into).await, from: state(from).await, sketch: sketch("both") };
        assert!(store.topics().merge_topics(&talk.scope, merge).await.expect("merged"));
        talk.topic(into).await.expect("it stays").topic
    };
    let unrated = other.begin("Which brush?").await;
    say(unrated, Some("Shed project"), Some(Feedback::Down)).await;
    let merged = merge(unrated).await;
    assert_eq!(merged.title, "Shed project");
    assert!((merged.importance - 1.0 / 1.5).abs() < 1e-9, "{}", merged.importance);

    let useful = other.begin("Which ladder?").await;
    say(useful, Some("Ladders"), Some(Feedback::Up)).await;
    other.exchange_in("And how much of it?", joins(into)).await;
    let merged = merge(useful).await;
    assert_eq!(merged.title, "Shed project", "of two names the older topic's stays");
    assert!((merged.importance - 1.0).abs() < 1e-9, "{}", merged.importance);
    talk.delete().await.expect("the session was there");
    assert_eq!(talk.topic(into).await.expect("it stays").topic.title, "Shed project");
}

/// A topic that was forgotten is listed on demand and nothing joins it; its turns stay.
pub async fn forgotten_topics_keep_their_turns(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let (old, new) = (talk.begin("Which paint?").await, talk.begin("Which train?").await);
    assert_eq!((talk.forget(old).await, talk.forget(old).await), (vec![old], vec![]), "twice is once");
    assert_eq!(talk.list(false).await.iter().map(|kept| kept.topic.id).collect::<Vec<_>>(), [new]);
    let listed = talk.list(true).await;
    assert_eq!(listed.iter().map(|kept| kept.forgotten_at).collect::<Vec<_>>(), [Some(at_noon()), None]);
    assert_eq!((listed[0].topic.messages, talk.topic_turns(old).await.len()), (2, 1));
    let late = talk.exchange_in("Late", joins(old)).await;
    assert_eq!(todo(&store).await, [late]);
    let outline = store.topics().topic_outline(&talk.scope, None).await.expect("the outline");
    assert_eq!(outline.topics.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [new]);
    assert!(!talk.is_due(old).await);
}

/// What faded and was used again before it was forgotten is not forgotten.
pub async fn a_topic_that_is_used_meanwhile_is_not_forgotten(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.begin("Which paint?").await;
    let faded = Faded { id, last_used: talk.topic(id).await.expect("it is there").topic.last_used };
    talk.another().exchange_in("And the fence?", joins(id)).await;
    assert_eq!(store.topics().forget_topics(&talk.scope, &[faded], at_noon()).await.expect("looked at"), []);
    assert_eq!(talk.topic(id).await.expect("it is there").forgotten_at, None);
    assert_eq!(talk.forget(id).await, [id]);
}

/// Titles, tags and feedback are what people say; each is changed alone.
pub async fn people_name_tag_and_rate(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.begin("Which paint?").await;
    let change = async |patch| {
        let changed = store.topics().change_topic(&talk.scope, id, patch).await.expect("changed");
        changed.expect("the topic is there").topic
    };
    let titled = change(TopicPatch { title: Some("The shed".into()), ..TopicPatch::default() }).await;
    assert_eq!((titled.title.as_str(), titled.importance, titled.tags.len()), ("The shed", 1.0, 0));
    let tagged = change(TopicPatch { tags: Some(vec!["garden".into()]), ..TopicPatch::default() }).await;
    assert_eq!((tagged.title.as_str(), tagged.tags), ("The shed", vec!["garden".to_owned()]));
    let rated = change(TopicPatch { feedback: Some(Feedback::Up), ..TopicPatch::default() }).await;
    assert_eq!((rated.importance, rated.tags.len()), (1.5, 1));
    let back = change(TopicPatch { feedback: Some(Feedback::Down), ..TopicPatch::default() }).await;
    assert_eq!(back.importance, 1.0);
    let unknown = store.topics().change_topic(&talk.scope, topic_id(), TopicPatch::default()).await;
    assert_eq!(unknown.expect("looked up"), None);
}

/// A topic that began without words is named by the first that are said in it, or are left.
pub async fn a_topic_is_named_by_its_first_words(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let (named, later) = (talk.another(), talk.another());
    let picture = async |topic| {
        let shown = OpenTurn { question: picture(), ..talk.question("") };
        let id = shown.id;
        talk.open(shown).await;
        talk.end_in(id, TurnStatus::Complete, topic).await;
    };
    let topic = begins("");
    picture(topic.clone()).await;
    picture(joins(topic.id)).await;
    let title = async || talk.topic(topic.id).await.expect("it is there").topic.title;
    assert_eq!(title().await, "");
    named.exchange_in("What colour is the door?", joins(topic.id)).await;
    later.exchange_in("And the windows?", joins(topic.id)).await;
    assert_eq!(title().await, "What colour is the door?");

    named.delete().await.expect("the session was there");
    talk.another().exchange_in("And the roof?", joins(topic.id)).await;
    assert!(store.topics().remake_topic(&talk.scope, topic.id).await.expect("made anew"));
    assert_eq!(title().await, "And the windows?");
}

/// A message that is a picture and nothing else.
fn picture() -> Message {
    let content = serde_json::json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]);
    let wire = serde_json::json!({"role": "user", "content": content});
    Message::from_wire(wire, at(0)).expect("a message")
}

/// Lists go on where they ended, and can be asked for one tag.
pub async fn topics_are_listed_in_pages(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(talk.begin(&format!("Topic {n}")).await);
    }
    let page = async |after, tag: Option<&str>| {
        let which = WhichTopics { limit: 2, after, forgotten: false, tag: tag.map(str::to_owned) };
        let page = store.topics().topics_kept(&talk.scope, which).await.expect("listed");
        (page.items.iter().map(|kept| kept.topic.id).collect::<Vec<_>>(), page.next)
    };
    let (first, next) = page(None, None).await;
    let (second, next) = page(next, None).await;
    let (third, end) = page(next, None).await;
    assert_eq!(([first, second, third].concat(), end), (ids.clone(), None));
    let patch = TopicPatch { tags: Some(vec!["it's \"odd\"".into()]), ..TopicPatch::default() };
    store.topics().change_topic(&talk.scope, ids[3], patch).await.expect("changed");
    assert_eq!(page(None, Some("it's \"odd\"")).await, (vec![ids[3]], None));
    assert_eq!(page(None, Some("odd")).await, (vec![], None));
}

/// Sketches of another form are all made anew, once.
pub async fn another_form_makes_all_anew(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let made_with = async |form| store.topics().topics_made_with(form).await.expect("noted");
    assert_eq!(made_with("one").await, 0);
    let id = talk.begin("Which paint?").await;
    assert!(talk.learn(id, "paint").await);
    assert_eq!((made_with("one").await, talk.is_due(id).await), (0, false));
    assert_eq!((made_with("two").await, talk.is_due(id).await), (1, true));
    assert_eq!(made_with("two").await, 0);
}

/// How many histories are made, each with so many steps.
const HISTORIES: u64 = 3;
const STEPS: usize = 90;

/// After any history of several users, with edits, retries, deletions, merges and forgetting: a turn that is shown is in
/// one topic or on the list, and every topic has the turns and messages that its turns say.
pub async fn counts_are_what_the_turns_say(store: Arc<dyn Store>) {
    let first = Talk::new(&store);
    let talks = [first.clone(), first.another(), first.of("acme", "bob"), first.of("other", "ann")];
    for seed in 1..=HISTORIES {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut courses: Vec<Course> =
            talks.iter().map(|talk| Course { talk: talk.clone(), tries: Vec::new() }).collect();
        for step in 0..STEPS {
            let which = dice.below(courses.len());
            match dice.below(4) {
                0 | 1 => courses[which].step(&mut dice).await,
                2 => talk_in_topics(&mut courses[which], &mut dice).await,
                _ => tend(&talks[which], &mut dice).await,
            }
            if dice.once_in(3) || step + 1 == STEPS {
                for scope in [&talks[0].scope, &talks[2].scope, &talks[3].scope] {
                    assert_counts(&store, scope, &talks, (seed, step)).await;
                }
            }
        }
    }
}

async fn some_topic(talk: &Talk, dice: &mut Dice) -> Option<TopicId> {
    let kept: Vec<TopicId> = talk.list(true).await.iter().map(|kept| kept.topic.id).collect();
    dice.pick(&kept)
}

async fn talk_in_topics(course: &mut Course, dice: &mut Dice) {
    let topic = match some_topic(&course.talk, dice).await {
        Some(id) if !dice.once_in(3) => joins(id),
        _ => begins("a new one"),
    };
    course.tries.push((course.talk.exchange_in("what about it?", topic).await, 0));
}

/// What the background and people do, in any order.
async fn tend(talk: &Talk, dice: &mut Dice) {
    let (topics, scope) = (talk.store.topics(), &talk.scope);
    let Some(id) = some_topic(talk, dice).await else { return };
    match dice.below(5) {
        0 => drop(talk.forget(id).await),
        1 => drop(topics.remake_topic(scope, id).await.expect("made anew")),
        2 => {
            let other = some_topic(talk, dice).await.unwrap_or(id);
            let states = topics.topic_sketches(scope, &[id, other], &[]).await.expect("read");
            if let [a, b] = &states[..] {
                let (into, from) = ((a.id, a.version), (b.id, b.version));
                topics.merge_topics(scope, TopicMerge { into, from, sketch: sketch("both") }).await.expect("merged");
            }
        }
        3 => {
            let due = topics.topic_todo(1 + dice.below(8)).await.expect("the list");
            let mine = due.into_iter().filter(|due| due.scope == *scope);
            let placed = mine.map(|due| PlacedTurn {
                turn: due.turn.id,
                stamp: due.stamp,
                topic: if due.turn.number % 2 == 0 { joins(id) } else { begins("later") },
                scope: due.scope,
            });
            topics.place_turns(placed.collect()).await.expect("placed");
        }
        _ if topics.topic_sketches(scope, &[id], &[]).await.expect("read").is_empty() => {}
        _ => drop(talk.learn(id, "words").await),
    }
}

async fn assert_counts(store: &Arc<dyn Store>, scope: &Scope, talks: &[Talk], when: (u64, usize)) {
    let mut shown = BTreeSet::new();
    for talk in talks.iter().filter(|talk| talk.scope == *scope) {
        let turns = talk.turns().await;
        shown.extend(turns.iter().filter(|turn| turn.status.enters_context()).map(|turn| turn.id));
    }
    let listed: BTreeSet<TurnId> = todo(store).await.into_iter().filter(|turn| shown.contains(turn)).collect();
    let talk = Talk { store: Arc::clone(store), scope: scope.clone(), session: talks[0].session };
    let mut members = BTreeSet::new();
    for kept in talk.list(true).await {
        let turns = talk.topic_turns(kept.topic.id).await;
        let spoken: usize = turns.iter().map(Turn::spoken).sum();
        assert_eq!(kept.topic.messages, spoken as u64, "history and step {when:?}");
        assert!(!turns.is_empty(), "an empty topic is gone, {when:?}");
        for turn in turns {
            assert!(!turn.superseded && turn.status != TurnStatus::Failed, "{turn:?}, {when:?}");
            assert!(members.insert(turn.id), "a turn is in one topic, {when:?}");
        }
    }
    assert!(members.is_disjoint(&listed), "history and step {when:?}");
    let known: BTreeSet<TurnId> = members.union(&listed).copied().collect();
    assert!(shown.is_subset(&known), "history and step {when:?}");
    let unknown = store.topics().topics_of(scope, &[turn_id()]).await.expect("looked up");
    assert_eq!(unknown, []);
}
