//! `POST /chat` as it comes: server-sent events, and clients that leave.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use futures_util::stream;
use http_body_util::BodyExt;
use recalld::model::scripted::Line;
use recalld::model::{ChatModel, Ending, ModelError, ModelFuture, Piece, Pieces, Prompt};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::house::{House, SESSION, eventually, keys};

type Said = Result<Piece, ModelError>;

/// A model whose pieces are handed to it one by one, while it speaks.
struct Dripping {
    pieces: Mutex<Option<mpsc::Receiver<Said>>>,
}

impl Dripping {
    /// The model, and the hand that feeds it. The hand sees when nobody listens any more.
    fn new() -> (Arc<Self>, mpsc::Sender<Said>) {
        let (hand, pieces) = mpsc::channel(8);
        (Arc::new(Self { pieces: Mutex::new(Some(pieces)) }), hand)
    }
}

impl ChatModel for Dripping {
    fn name(&self) -> &str {
        "dripping"
    }

    fn ask(&self, _: Prompt) -> ModelFuture<'_> {
        let pieces = self.pieces.lock().expect("not poisoned").take().expect("asked once");
        let pieces = stream::unfold(pieces, async |mut pieces| Some((pieces.recv().await?, pieces)));
        Box::pin(async { Ok(Box::pin(pieces) as Pieces) })
    }
}

fn text(text: &str) -> Said {
    Ok(Piece::Text(text.into()))
}

/// The next event of a stream: its name and its data.
async fn next_event(body: &mut Body) -> Option<(String, Value)> {
    let frame = body.frame().await?.expect("a whole frame").into_data().expect("data");
    let frame = String::from_utf8(frame.to_vec()).expect("text");
    let (event, data) = frame.trim_end().split_once('\n').expect("two lines");
    let data = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
    Some((event.strip_prefix("event: ").expect("an event").to_owned(), data))
}

async fn all_events(mut body: Body) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    while let Some(event) = next_event(&mut body).await {
        events.push(event);
    }
    events
}

fn question() -> Value {
    json!({"query": "What do I need?", "stream": true})
}

/// B1: pieces as they come, then the whole answer with the same fields as without a stream.
#[tokio::test]
async fn an_answer_comes_in_pieces_and_ends_with_the_whole() {
    let house = House::open();
    house.model.then(Line { pieces: vec!["A hel".into(), "met.\n\nNow.".into()], error: None });
    let response = house.post("/chat").session(SESSION).stream(question()).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-session-id"], SESSION);
    let turn = response.headers()["x-recalld-turn"].to_str().expect("text").to_owned();
    let events = all_events(response.into_body()).await;
    assert_eq!(events[0], ("delta".into(), json!({"text": "A hel"})));
    assert_eq!(events[1], ("delta".into(), json!({"text": "met.\n\nNow."})));
    let (name, done) = &events[2];
    assert_eq!((name.as_str(), events.len()), ("done", 3));
    assert_eq!(done["answer"], "A helmet.\n\nNow.");
    assert_eq!((&done["metadata"]["turn_id"], &done["metadata"]["turn_number"]), (&json!(turn), &json!(1)));
    assert!(house.model.shown()[0].stream);
}

/// P1: `done` is an acknowledgement, so the turn is on disk when it comes.
#[tokio::test]
async fn done_comes_after_the_turn_is_stored() {
    let (model, hand) = Dripping::new();
    let house = House::plan().model(model).open();
    hand.send(text("A helmet.")).await.expect("heard");
    let mut body = house.post("/chat").session(SESSION).stream(question()).await.into_body();
    assert_eq!(next_event(&mut body).await.expect("a piece").0, "delta");
    assert_eq!(house.turns(SESSION).await[0]["status"], "pending", "the question is on disk before the first piece");
    hand.send(Ok(Piece::End(Ending::default()))).await.expect("heard");
    assert_eq!(next_event(&mut body).await.expect("an end").0, "done");
    let turn = &house.turns(SESSION).await[0];
    assert_eq!((&turn["status"], &turn["response_text"]), (&json!("complete"), &json!("A helmet.")));
}

/// Section 9: an error in the middle of a stream is its last event, in the usual shape.
#[tokio::test]
async fn an_error_in_the_middle_is_an_event() {
    let house = House::open();
    let error = Some(ModelError::BrokeOff("reset".into()));
    house.model.then(Line { pieces: vec!["A hel".into()], error });
    let events = all_events(house.post("/chat").session(SESSION).stream(question()).await.into_body()).await;
    let (name, error) = &events[1];
    assert_eq!((name.as_str(), events.len()), ("error", 2));
    assert_eq!(keys(error), ["error", "detail"]);
    assert_eq!(house.turns(SESSION).await[0]["status"], "partial");
}

/// Section 9: what fails before the first piece has its status, with or without a stream.
#[tokio::test]
async fn an_error_before_the_first_piece_is_a_status() {
    let house = House::plan().setting(|settings| settings.waiting_turns_max = 0).open();
    let error = Some(ModelError::Silent(Duration::from_secs(9)));
    house.model.then(Line { pieces: Vec::new(), error });
    let answer = house.post("/chat").session(SESSION).json(question()).await;
    assert_eq!((answer.refusal(), answer.header("x-session-id")), ((504, "model_timeout"), SESSION));
    assert_eq!(house.turns(SESSION).await[0]["status"], "failed");
    house.flaky.fail(Some(recalld::store::StoreError::Full("no space left".into())));
    assert_eq!(house.post("/chat").session(SESSION).json(question()).await.refusal(), (507, "storage_full"));
}

async fn ended_turn(house: &House) -> Value {
    eventually("the turn has ended", async || {
        let turn = house.turns(SESSION).await.pop()?;
        (turn["status"] != "pending").then_some(turn)
    })
    .await
}

/// Section 3: a client that leaves costs its answer; the upstream is told, and what came is kept.
#[tokio::test]
async fn a_client_that_leaves_mid_stream_leaves_a_partial_turn() {
    let (model, hand) = Dripping::new();
    let house = House::plan().model(model).open();
    hand.send(text("You need ")).await.expect("heard");
    let mut body = house.post("/chat").session(SESSION).stream(question()).await.into_body();
    next_event(&mut body).await.expect("a piece");
    drop(body);
    tokio::time::timeout(Duration::from_secs(5), hand.closed()).await.expect("the upstream is dropped");
    let turn = ended_turn(&house).await;
    assert_eq!((&turn["status"], &turn["response_text"]), (&json!("partial"), &json!("You need ")));
    assert_eq!(turn["metadata"]["reason"], "the client left before the answer was complete");
    assert_eq!(house.metric("recalld_model_failures_total").await, 0, "the model did nothing wrong");
}

/// The same without a stream: a request that is given up ends its turn properly.
#[tokio::test]
async fn a_client_that_gives_up_waiting_leaves_a_partial_turn() {
    let (model, hand) = Dripping::new();
    let house = House::plan().model(model).open();
    hand.send(text("You need ")).await.expect("heard");
    let asked = house.post("/chat").session(SESSION).json(json!({"query": "What do I need?"}));
    tokio::time::timeout(Duration::from_millis(300), asked).await.expect_err("the answer never ends");
    tokio::time::timeout(Duration::from_secs(5), hand.closed()).await.expect("the upstream is dropped");
    let turn = ended_turn(&house).await;
    assert_eq!((&turn["status"], &turn["response_text"]), (&json!("partial"), &json!("You need ")));
}

/// P8: a reader that does not read makes the model wait, and the server keeps a bounded part.
#[tokio::test]
async fn a_slow_reader_makes_the_model_wait() {
    let (model, hand) = Dripping::new();
    let house = House::plan().model(model).open();
    hand.send(text("x")).await.expect("heard");
    let mut body = house.post("/chat").session(SESSION).stream(question()).await.into_body();
    let mut sent = 0;
    while tokio::time::timeout(Duration::from_millis(200), hand.send(text("x"))).await.is_ok() {
        sent += 1;
        assert!(sent < 1_000, "the server takes everything in");
    }
    for _ in 0..sent {
        assert_eq!(next_event(&mut body).await.expect("a piece").0, "delta");
    }
}
