//! One outage, step by step: what a client, a log and a scraper are told.

use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use recalld::id::{Ids, RandomIds};
use serde_json::{Value, json};

use super::database::Database;
use super::{Instance, check, lock, nothing_is_left_in, reconciled};
use crate::process::{Server, send_to};

struct Story {
    instance: Instance,
    session: String,
    url: String,
    log: Arc<Mutex<Vec<String>>>,
}

impl Story {
    fn server(&self) -> &Server {
        self.instance.server()
    }

    /// Asks; answers whether that was degraded, and how many messages the model was shown. On a machine that is busy something
    /// else may be degraded as well.
    fn ask(&self, question: &str) -> (bool, u64) {
        let headers = [("x-session-id", self.session.as_str()), ("x-user-id", "ann")];
        let body = json!({ "query": format!("zirconium {question}") }).to_string();
        let (status, head, body) =
            send_to(&self.server().address, "POST", "/chat", &headers, &body).expect("an answer");
        assert_eq!(status, 200, "{body}");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let degraded = head.to_ascii_lowercase().contains("x-recalld-status: degraded");
        (degraded, body["metadata"]["messages_in_context"].as_u64().expect("a number"))
    }

    fn metric(&self, name: &str) -> String {
        let (_, _, body) = send_to(&self.server().address, "GET", "/metrics", &[], "").expect("metrics");
        let line = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {name} in\n{body}"))
    }

    /// How many lines of the log say that the store is in a state.
    fn said(&self, state: &str) -> usize {
        lock(&self.log).iter().filter(|line| line.contains("store.state") && line.contains(state)).count()
    }

    fn wait_until_it_is(&self, away: &str) {
        let patience = Instant::now() + Duration::from_secs(20);
        while self.metric("recalld_database_away") != away {
            assert!(Instant::now() < patience, "the database is not noticed to be {away}");
            sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn an_outage_is_told_survived_and_over() {
    let Some(mut database) = Database::start() else { return };
    let url = format!("postgres://recalld@127.0.0.1:{}/postgres", database.port);
    let log = Arc::default();
    let instance = Instance::start(&url, &log);
    let mut story = Story { instance, session: RandomIds.session().to_string(), url, log };
    assert_eq!((story.ask("one").1, story.ask("two").1), (0, 2));
    assert_eq!(story.metric("recalld_turns_waited_total"), "0");

    database.kill();
    assert_eq!(story.ask("three"), (true, 4), "history comes from memory");
    assert_eq!(story.ask("four"), (true, 6), "and from what waits");
    story.wait_until_it_is("1");
    assert_eq!((story.said("away"), story.metric("recalld_waiting_turns").as_str()), (1, "2"));
    let explicit = story.server().send("GET", "/api/v1/sessions", &[("x-user-id", "ann")], "");
    assert_eq!((explicit.0, &explicit.1["error"]), (503, &json!("Database unavailable")));

    let (url, log) = (story.url.clone(), Arc::clone(&story.log));
    story.instance.kill_and_start(&url, &log);
    assert_eq!(story.ask("five"), (true, 4), "what was spooled outlives the process");
    let ready = story.server().send("GET", "/readyz", &[], "");
    assert_eq!((ready.0, &ready.1["status"]), (200, &json!("degraded")));

    database.serve();
    reconciled(story.server(), &story.log);
    story.wait_until_it_is("0");
    assert_eq!(story.metric("recalld_turns_replayed_total"), "3");
    let waited = story.metric("recalld_turns_waited_total");
    assert_eq!(
        (story.ask("six").1, story.metric("recalld_turns_waited_total")),
        (10, waited),
        "as if nothing had been"
    );
    let asked = ["one", "two", "three", "four", "five", "six"].map(|question| format!("zirconium {question}")).to_vec();
    assert_eq!(check(story.server(), "ann", &story.session, &[&asked]), 6);
    assert_eq!((story.said("away"), story.said("back"), story.said("normal")), (2, 1, 1), "each process said it once");
    nothing_is_left_in(story.instance.folder.path());
}
