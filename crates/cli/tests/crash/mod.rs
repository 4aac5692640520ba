//! `portcullis serve` is killed at random moments while clients write. Every acknowledged write survives as
//! acknowledged; any other write is there completely or not at all; revisions never go back.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::mutate::dice;
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use serde_json::{Value, json};

const KILLS: u64 = 220;
/// How many writes must have been acknowledged in all. A slow machine needs more kills for them, up to ten times as many.
const ACKNOWLEDGED: u64 = 5 * KILLS;
const WRITERS: u64 = 6;
/// Names that a writer uses, so that it creates, changes and deletes again and again.
const NAMES: u64 = 9;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// What a writer knows to be under a name.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    Nothing,
    /// As it was acknowledged or read.
    Object(Value),
    /// Nobody has said which of these came to be.
    Unsure {
        before: Option<Value>,
        after: Option<Value>,
    },
}

impl Known {
    fn of(object: Option<Value>) -> Self {
        object.map_or(Self::Nothing, Self::Object)
    }
}

/// What a client did and was told.
struct Writer {
    number: u64,
    /// How many writes it has begun.
    begun: u64,
    acknowledged: u64,
    names: BTreeMap<String, Known>,
    newest: u64,
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// What a write says: long and short ones, each different.
fn content(writer: u64, write: u64) -> Value {
    let dice = dice(writer * 1_000_003 + write);
    let length = if dice.is_multiple_of(16) { dice % 20_000 } else { dice % 500 };
    json!({"write": write.to_string(), "filling": "x".repeat(length as usize)})
}

impl Writer {
    fn new(number: u64) -> Self {
        let names = (0..NAMES).map(|name| (format!("w{number}-{name}"), Known::Nothing)).collect();
        Self { number, begun: 0, acknowledged: 0, names, newest: 0 }
    }

    /// Writes until the connection breaks.
    fn write_until_killed(&mut self, mut client: Client) {
        while self.write(&mut client).is_some() {}
    }

    fn write(&mut self, client: &mut Client) -> Option<()> {
        self.begun += 1;
        let dice = dice(self.number << 32 | self.begun);
        let name = format!("w{}-{}", self.number, dice % NAMES);
        let path = format!("{MAPS}/{name}");
        let data = content(self.number, self.begun);
        let wanted = |old: Option<&Value>| {
            let mut object = old.cloned().unwrap_or_default();
            object["data"] = data.clone();
            Some(object)
        };
        let before = match &self.names[&name] {
            Known::Nothing => None,
            Known::Object(object) => Some(object.clone()),
            Known::Unsure { .. } => panic!("{name} has been read again"),
        };
        let (code, method, path, body, after) = match &before {
            None => {
                let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
                (201, "POST", MAPS, Some(object), wanted(None))
            }
            Some(_) if dice.is_multiple_of(5) => (200, "DELETE", path.as_str(), None, None),
            Some(old) => (200, "PATCH", path.as_str(), Some(json!({"data": data})), wanted(Some(old))),
        };
        let is_removal = after.is_none();
        self.names.insert(name.clone(), Known::Unsure { before, after });
        let answer = client.ask(method, path, body.as_ref()).ok()?;
        assert_eq!(answer.code, code, "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
        self.acknowledged += 1;
        if is_removal {
            self.names.insert(name, Known::Nothing);
            return Some(());
        }
        let object = answer.json();
        assert!(revision(&object) > self.newest, "{} after {}", revision(&object), self.newest);
        assert_eq!(object["data"], data);
        self.newest = revision(&object);
        self.names.insert(name, Known::Object(object));
        Some(())
    }

    /// Holds what there is against what this client knows, and takes over what it could not know.
    fn compare(&mut self, found: &BTreeMap<String, Value>, newest: u64) {
        for (name, known) in &mut self.names {
            let object = found.get(name);
            match &*known {
                Known::Nothing => assert_eq!(object, None, "{name} was deleted"),
                Known::Object(written) => assert_eq!(object, Some(written), "{name} was acknowledged"),
                Known::Unsure { before, after } => {
                    let is_new = |object: &Value| {
                        let after = after.as_ref().is_some_and(|after| after["data"] == object["data"]);
                        after && revision(object) > self.newest && revision(object) <= newest
                    };
                    let is_whole = match object {
                        None => before.is_none() || after.is_none(),
                        Some(object) => before.as_ref() == Some(object) || is_new(object),
                    };
                    assert!(is_whole, "{name}: {object:?} is neither {before:?} nor {after:?}");
                    if let (Some(before), Some(object)) = (before, object) {
                        assert_eq!(before["metadata"]["uid"], object["metadata"]["uid"], "{name}");
                    }
                }
            }
            *known = Known::of(object.cloned());
        }
        self.newest = newest;
    }
}

#[test]
fn what_was_acknowledged_over_https_survives_kill_and_nothing_is_there_by_half() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    let mut newest = 0;
    for round in 0.. {
        let dice = dice(round);
        // Some do not come as far as to serve.
        if dice.is_multiple_of(8) && round > 0 {
            let early = Running::spawn(program!().serve_command(&data));
            std::thread::sleep(Duration::from_micros(dice / 8 % 40_000));
            early.kill();
        }
        let served = program!().serve(&data);
        let address = served.address();
        let identity = Identity::admin(&data);
        let mut client = Client::new(address, &identity);
        let list = client.must(200, "GET", MAPS, None);
        assert!(revision(&list) >= newest, "{} after {newest}", revision(&list));
        newest = revision(&list);
        let items = list["items"].as_array().unwrap().iter();
        let found: BTreeMap<String, Value> = items
            .map(|item| {
                let mut item = item.clone();
                // AP-70: items of a list do not say what they are.
                item["kind"] = "ConfigMap".into();
                item["apiVersion"] = "v1".into();
                (item["metadata"]["name"].as_str().unwrap().to_owned(), item)
            })
            .filter(|(name, _)| name.starts_with('w'))
            .collect();
        writers.iter_mut().for_each(|writer| writer.compare(&found, newest));
        let known = writers.iter().flat_map(|writer| &writer.names);
        let known = known.filter(|(_, known)| matches!(known, Known::Object(_))).count();
        assert_eq!(found.len(), known, "nothing is there that nobody wrote");
        let acknowledged: u64 = writers.iter().map(|writer| writer.acknowledged).sum();
        if round >= KILLS && acknowledged > ACKNOWLEDGED {
            break;
        }
        assert!(round < 10 * KILLS, "{acknowledged} writes are too few to say anything");
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let client = Client::new(address, &identity);
                scope.spawn(move || writer.write_until_killed(client));
            }
            std::thread::sleep(Duration::from_micros(dice % 70_000));
            served.kill();
        });
        newest = writers.iter().map(|writer| writer.newest).fold(newest, u64::max);
    }
}
