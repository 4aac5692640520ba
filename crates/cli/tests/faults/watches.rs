//! Watches that go on where they were cut, at the same server or at the other one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use portcullis_testkit::https::{Client, Events};
use serde_json::Value;

use super::load::{MAPS, Said, revision, value};
use super::servers::Servers;

/// The object that is created last: a watch that has told of it has told everything before.
pub(crate) const LAST: &str = "last";

/// An object as a watch told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) value: u64,
}

impl Object {
    /// None for an object of somebody else.
    fn of(object: &Value) -> Option<Self> {
        let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
        object["data"]["value"].is_string().then(|| Self {
            name: text("name"),
            uid: text("uid"),
            value: value(object),
        })
    }
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

/// Everything that one watch has told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) changes: BTreeMap<u64, (Change, Object)>,
    /// What there is now.
    pub(crate) state: BTreeMap<String, Object>,
    /// After the first and up to the second revision changes were not told, but lists: before the first list, and where
    /// the server had answered that it has forgotten them (410).
    pub(crate) gaps: Vec<(u64, u64)>,
    /// How often it was opened again without a gap.
    pub(crate) resumed: usize,
    /// The revision that it has told of last.
    newest: u64,
}

impl Told {
    /// Whether there was no need to tell of this revision.
    pub(crate) fn is_in_gap(&self, revision: u64) -> bool {
        self.gaps.iter().any(|(after, until)| (*after < revision) && revision <= *until)
    }

    fn is_complete(&self) -> bool {
        self.state.contains_key(LAST)
    }

    fn list(&mut self, list: &Value) {
        let at = revision(list);
        assert!(at >= self.newest, "a list at {at} after a change at {}", self.newest);
        self.gaps.push((self.newest, at));
        self.newest = at;
        let objects = list["items"].as_array().unwrap().iter().filter_map(Object::of);
        self.state = objects.map(|object| (object.name.clone(), object)).collect();
    }

    /// Takes an event. It must fit what was told before.
    fn take(&mut self, event: &Value) {
        let at = revision(&event["object"]);
        assert!(at > self.newest, "an event at {at} after {}: {event}", self.newest);
        self.newest = at;
        let Some(object) = Object::of(&event["object"]) else { return };
        let before = self.state.get(&object.name);
        let change = match event["type"].as_str().unwrap() {
            "ADDED" => {
                assert_eq!(before, None, "{event}");
                Change::Added
            }
            "MODIFIED" => {
                assert_eq!(before.map(|before| &before.uid), Some(&object.uid), "{event}");
                Change::Modified
            }
            "DELETED" => {
                assert_eq!(before, Some(&object), "{event}");
                Change::Deleted
            }
            other => panic!("{other}: {event}"),
        };
        match change {
            Change::Added | Change::Modified => self.state.insert(object.name.clone(), object.clone()),
            Change::Deleted => self.state.remove(&object.name),
        };
        self.changes.insert(at, (change, object));
    }
}

/// Follows all changes until the last one. A watch that roams goes on at the other server after each failure.
pub(crate) fn follow(servers: &Servers, mut server: usize, roams: bool, is_given_up: &AtomicBool) -> Told {
    let mut told = Told::default();
    let mut must_list = true;
    while !told.is_complete() && !is_given_up.load(Ordering::Relaxed) {
        let mut admin = servers.admin(server);
        let outcome = if must_list {
            match Said::of(admin.ask("GET", MAPS, None)) {
                Said::Yes(list) => {
                    told.list(&list);
                    Ok(Ended::Told)
                }
                _ => Err(()),
            }
        } else {
            let path = format!("{MAPS}?watch=true&resourceVersion={}", told.newest);
            watch(admin, &path, &mut told)
        };
        match outcome {
            Ok(Ended::Told) => must_list = false,
            Ok(Ended::Forgotten) => must_list = true,
            Err(()) => {
                told.resumed += usize::from(!must_list);
                server = if roams { 1 - server } else { server };
                sleep(Duration::from_millis(50));
            }
        }
    }
    told
}

/// How a watch ended that did not fail.
enum Ended {
    /// It has told everything, or what there is was listed.
    Told,
    /// The server has forgotten the revision from which it should go on.
    Forgotten,
}

fn watch(admin: Client, path: &str, told: &mut Told) -> Result<Ended, ()> {
    let events: Events = admin.watch(path).map_err(drop)?;
    for event in events {
        let event = event.map_err(drop)?;
        if event["type"] == "ERROR" {
            // 504: the server has not come as far yet.
            return if event["object"]["code"] == 410 { Ok(Ended::Forgotten) } else { Err(()) };
        }
        told.take(&event);
        if told.is_complete() {
            return Ok(Ended::Told);
        }
    }
    Err(())
}
