//! A watch of the part of a collection that the caller may get (BC-40, BC-41).
//!
//! An object that enters what the caller may get arrives as ADDED, one that leaves it as DELETED, in the last state that the
//! caller was sent. Changes of rights take effect in their order among the changes of objects: see
//! [`registry::filtered`](crate::registry::filtered).
//!
//! A resourceVersion stands for a state of the objects, not of the rights. So a watch goes on after one only if rights have not
//! changed since; otherwise it ends with 410, and the client lists again. That is also what makes it harmless that events of a
//! change of rights have the resourceVersion of their object, which may be older than that of the event before: whoever
//! goes on there lists again. After such events a bookmark tells the revision that is reached.
//!
//! It never sends what was decided before a change of rights, however slowly the client reads.

use portcullis_client::metrics::Counter;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use portcullis_store::{Entry, Event, Revision, Store as _, StoreError, Watch as _};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::render::View;
use super::request::Request;
use super::scanning;
use super::watch_events::{self, EventWriter, PIECE, Piece, spread, too_old};
use crate::api::filter_lists::HEADER;
use crate::api::large_work::LargeWork;
use crate::http::account::Account;
use crate::http::body::Body;
use crate::http::budget::Charge;
use crate::http::negotiate;
use crate::http::status::{Answer, Status};
use crate::registry::backend::{Backend, BackendWatch};
use crate::registry::filtered::{Filtered, ScanError, Visibility};
use crate::registry::list_options::{self, ListOptions};
use crate::registry::{freshness, storage};

/// How often the authorizers are looked at, whose replacement nobody tells.
const LOOK: Duration = Duration::from_secs(5);
/// A watch may look through its collection again after this many times the time that it took last.
const REST: u32 = 10;
/// But not later than after this time.
const LONGEST_REST: Duration = Duration::from_secs(2);
/// How often at once, because rights have changed meanwhile.
const TRIES: usize = 3;
/// What is charged for an object that the client has, beside its key. In bytes.
const OF_OBJECT: usize = 128;

/// Streams the changes of what the caller may get of a collection.
pub(crate) async fn answer(
    request: &Request<'_>,
    view: &View,
    visibility: Box<dyn Visibility>,
) -> Result<Answer, Status> {
    let (app, scope) = (request.app, &request.scope);
    let options = ListOptions::read(&request.query, &scope.target, true)?;
    if view.is(negotiate::View::PartialList) {
        view.allow(false)?;
    }
    let asked = list_options::revision(&options.resource_version).map_err(Status::unknown)?;
    let filtered =
        Filtered::new(app.backend(), &app.right_changes, visibility, &scope.target, options.selection);
    let bookmarks = app.limits().bookmarks;
    let account = request.charged.account;
    app.metrics().filtered.watches.inc();
    let mut stream = Box::new(Stream {
        backend: Arc::clone(app.backend()),
        scans: app.metrics().filtered.scans.clone(),
        turns: Arc::clone(&app.large_work),
        account,
        charge: app.held.nothing(account),
        held_bytes: app.limits().held_bytes,
        filtered,
        writer: EventWriter::new(app, *view, scope.target.resource),
        sent: HashMap::new(),
        size: 0,
        pending: VecDeque::new(),
        position: Revision(0),
        is_beginning: false,
        source: Source::Unknown,
        keys: app.held.nothing(account),
        must_look: false,
        rested: Instant::now(),
        ends: Instant::now() + options.timeout.map_or_else(spread, Ok)?,
        bookmark: options.wants_bookmarks.then(|| Instant::now() + bookmarks),
        bookmarks,
        stopping: app.stopping(),
    });
    // AP-81, AP-84: as of a whole watch.
    match (options.sends_initial.unwrap_or(asked.is_none()), asked) {
        (true, asked) => {
            match asked {
                Some(_) => scope.wait_for(asked).await?,
                None if options.sends_initial == Some(true) && options.resource_version.is_empty() => {
                    freshness::fresh(scope.backend).await?;
                }
                None => {}
            }
            stream.is_beginning = true;
            stream.catch_up().await?;
        }
        (false, asked) => {
            scope.wait_for(asked).await?;
            stream.go_on_after(asked.unwrap_or_else(|| scope.backend.revision())).await?;
        }
    }
    let mut answer = watch_events::answer(view, Body::unfold(stream, Stream::next));
    answer.headers_mut().insert(HEADER, http::HeaderValue::from_static("true"));
    Ok(answer)
}

/// What is to be sent.
enum Item {
    /// The state of an object as of a revision; none if there is none that the caller may get and wants.
    State { key: Box<str>, entry: Option<Arc<Entry>>, revision: Revision },
    /// The progress of the watch.
    Bookmark(Revision),
}

/// An object that the client has.
struct Sent {
    created: Revision,
    modified: Revision,
    /// The state that was sent, as long as the store remembers it.
    entry: Weak<Entry>,
}

impl From<&Arc<Entry>> for Sent {
    fn from(entry: &Arc<Entry>) -> Self {
        Self { created: entry.created, modified: entry.modified, entry: Arc::downgrade(entry) }
    }
}

/// How the watch learns of changes of objects.
enum Source {
    /// It must look first.
    Unknown,
    /// By the events of a prefix.
    Events { prefix: String, watch: BackendWatch },
    /// All objects are known by key; the interest is told of their changes, and the watch looks at them again.
    Keys,
    /// Not any more: an error, which is the last event.
    Failed(Option<Status>),
}

/// Why a watch goes on.
enum Woken {
    ToLook,
    ByEvents(Result<Vec<Event>, StoreError>),
    ByInterest,
    ForBookmark,
}

/// The state of one watch.
struct Stream {
    backend: Arc<Backend>,
    scans: Counter,
    turns: Arc<LargeWork>,
    account: Account,
    charge: Charge,
    /// The most that may be charged to the account. In bytes.
    held_bytes: usize,
    filtered: Filtered,
    writer: EventWriter,
    /// What the client has, by key, once all pieces so far have arrived.
    sent: HashMap<Box<str>, Sent>,
    /// The size of that. In bytes.
    size: usize,
    pending: VecDeque<Item>,
    /// Every change up to here was sent, or is pending; and decided by rights that did not change after it.
    position: Revision,
    /// Whether the client has not yet been told all that was there at the start. The first bookmark tells it that this is all:
    /// it comes after everything that was found by one look. If rights change before it was sent, that is a later look.
    is_beginning: bool,
    source: Source,
    /// The keys of the objects that are followed.
    keys: Charge,
    /// Whether the collection must be looked through, because something has changed that the source does not tell.
    must_look: bool,
    /// When the collection may be looked through again.
    rested: Instant,
    ends: Instant,
    /// The time of the next bookmark, if bookmarks are wanted.
    bookmark: Option<Instant>,
    bookmarks: Duration,
    stopping: watch::Receiver<bool>,
}

impl Stream {
    /// Returns the next chunk; none at the end.
    async fn next(mut self: Box<Self>) -> Option<(Bytes, Box<Self>)> {
        loop {
            if !matches!(self.source, Source::Failed(_)) {
                if self.filtered.is_replaced() {
                    self.fail(Status::expired("the authorizers were replaced: list again"));
                } else if !self.filtered.holds_since(self.position) {
                    // What was decided before is worth nothing now.
                    self.pending.clear();
                    self.must_look = true;
                }
            }
            if let Some(piece) = self.piece() {
                return Some((piece, self));
            }
            let must_look = self.must_look;
            let (looks_at, bookmark_at) = (must_look.then_some(self.rested), self.bookmark);
            let watch = match &mut self.source {
                Source::Failed(status) => {
                    let piece = self.writer.error(&status.take()?).ok()?;
                    return Some((piece, self));
                }
                // Nothing is sent before it was looked again.
                Source::Events { watch, .. } if !must_look => Some(watch),
                Source::Events { .. } | Source::Keys | Source::Unknown => None,
            };
            let is_by_key = watch.is_none();
            let events = async {
                match watch {
                    Some(watch) => watch.next().await,
                    None => std::future::pending().await,
                }
            };
            let woken = tokio::select! {
                biased;
                _ = self.stopping.wait_for(|stopping| *stopping) => return None,
                () = sleep_until(self.ends) => return None,
                () = until(looks_at) => Woken::ToLook,
                events = events => Woken::ByEvents(events),
                () = self.filtered.interest().changed() => Woken::ByInterest,
                () = until(bookmark_at), if !must_look => Woken::ForBookmark,
                () = sleep(LOOK) => continue,
            };
            match woken {
                Woken::ToLook => {
                    self.must_look = false;
                    // Large, and not needed while the watch waits.
                    if let Err(status) = Box::pin(self.catch_up()).await {
                        self.fail(status);
                    }
                }
                Woken::ByEvents(Ok(events)) => self.take(events),
                Woken::ByEvents(Err(error @ StoreError::Compacted { .. })) => self.fail(too_old(&error)),
                Woken::ByEvents(Err(error)) => self.fail(storage::failed(&error)),
                // A change of rights is found above.
                Woken::ByInterest => self.must_look |= is_by_key,
                Woken::ForBookmark => {
                    self.bookmark = Some(Instant::now() + self.bookmarks);
                    self.tell_progress();
                }
            }
        }
    }

    /// Tells the client how far it has come.
    fn tell_progress(&mut self) {
        let Source::Events { watch, .. } = &self.source else {
            // Looking tells it.
            self.must_look = true;
            return;
        };
        let revision = self.position.max(watch.revision());
        if self.filtered.holds_since(self.position) {
            self.position = revision;
            self.pending.push_back(Item::Bookmark(revision));
        }
    }

    /// Ends the watch with an error, and sends nothing else.
    fn fail(&mut self, status: Status) {
        self.pending.clear();
        self.source = Source::Failed(Some(status));
    }

    /// Decides about changes of objects.
    fn take(&mut self, events: Vec<Event>) {
        let Source::Events { watch, .. } = &self.source else { return };
        let reached = watch.revision();
        let mut items = Vec::with_capacity(events.len());
        for Event { revision, previous, entry } in events {
            if revision <= self.position {
                continue;
            }
            let Some(key) = entry.as_ref().or(previous.as_ref()).map(|entry| entry.key.clone()) else {
                continue;
            };
            let shown = match entry.as_deref().map(|entry| self.filtered.shows(entry)).transpose() {
                Ok(shown) => shown.unwrap_or_default(),
                Err(status) => return self.fail(status),
            };
            items.push(Item::State { key, entry: entry.filter(|_| shown), revision });
        }
        // Otherwise a change of rights came before some of these changes. All of them are looked at again.
        if self.filtered.holds_since(self.position) {
            self.pending.extend(items);
            self.position = self.position.max(reached);
        }
    }

    /// Looks at all that the caller may get now, and has the difference to what the client has sent. Tells how far this
    /// came, if bookmarks are wanted.
    async fn catch_up(&mut self) -> Result<(), Status> {
        let began = Instant::now();
        let mut looked = None;
        for _ in 0..TRIES {
            self.scans.inc();
            let (mut scan, prefix) = self.filtered.look_and_follow().await?;
            scanning::complete(&self.turns, self.account, &self.filtered, &mut scan).await?;
            looked = scan.end(&self.filtered).map(|found| (found, prefix));
            if looked.is_some() || self.filtered.is_replaced() {
                break;
            }
        }
        let now = Instant::now();
        self.rested = now + (now.duration_since(began) * REST).min(LONGEST_REST);
        let Some(((revision, found), prefix)) = looked else {
            // Rights change all the time. What the client has stays what it was, and is looked at again.
            let is_first = matches!(self.source, Source::Unknown);
            return if is_first { Err(Status::try_again(CHANGING)) } else { Ok(()) };
        };
        self.follow(prefix, revision).await?;
        self.pending = self.difference(found);
        // Those who go on after this revision miss nothing.
        if self.bookmark.is_some() {
            self.pending.push_back(Item::Bookmark(revision));
        }
        self.position = revision;
        Ok(())
    }

    /// Learns of later changes by the events of a prefix, or by key.
    async fn follow(&mut self, prefix: Option<String>, after: Revision) -> Result<(), Status> {
        self.keys.set(0);
        if !self.keys.grow(self.filtered.interest().size()) {
            return Err(Status::holds_too_much(self.held_bytes));
        }
        self.source = match (prefix, &self.source) {
            (None, _) => Source::Keys,
            (Some(wanted), Source::Events { prefix, .. }) if wanted == *prefix => return Ok(()),
            (Some(prefix), _) => {
                let watch = match self.filtered.part() {
                    Some(part) => self.backend.watch_part(&prefix, part, after).await,
                    None => self.backend.watch(&prefix, after).await,
                };
                Source::Events { prefix, watch: watch.map_err(|error| storage::failed(&error))? }
            }
        };
        Ok(())
    }

    /// The changes that lead from what the client has to what was found. What has gone comes first, with the revision up to
    /// which the client knows everything; then the rest in the order of the revisions, so that a client that is cut off in
    /// between can go on after what it got.
    fn difference(&self, mut found: Vec<Arc<Entry>>) -> VecDeque<Item> {
        let there: HashMap<&str, Revision> = found.iter().map(|entry| (&*entry.key, entry.created)).collect();
        let gone = self.sent.iter().filter(|(key, sent)| there.get(&***key) != Some(&sent.created));
        let gone =
            gone.map(|(key, _)| Item::State { key: key.clone(), entry: None, revision: self.position });
        let mut items: VecDeque<Item> = gone.collect();
        found.retain(|entry| {
            let sent = self.sent.get(&entry.key);
            sent.is_none_or(|sent| sent.modified != entry.modified)
        });
        found.sort_by_key(|entry| entry.modified);
        items.extend(found.into_iter().map(|entry| Item::State {
            key: entry.key.clone(),
            revision: entry.modified,
            entry: Some(entry),
        }));
        items
    }

    /// Goes on after a revision at which the client has listed what it could get.
    async fn go_on_after(&mut self, revision: Revision) -> Result<(), Status> {
        let expired = || {
            Status::expired("too old resource version: what the caller may get has changed since: list again")
        };
        if !self.filtered.continues(revision) {
            self.fail(expired());
            return Ok(());
        }
        self.scans.inc();
        let looked = async {
            let (_, prefix) = self.filtered.look_and_follow().await?;
            let mut scan = self.filtered.look_at(revision, None, 0).await?;
            scanning::complete(&self.turns, self.account, &self.filtered, &mut scan).await?;
            Ok::<_, ScanError>((scan.end(&self.filtered), prefix))
        };
        let (found, prefix) = match looked.await {
            Ok((Some((_, found)), prefix)) => (found, prefix),
            Ok((None, _)) => {
                self.fail(expired());
                return Ok(());
            }
            Err(error) => {
                let status = Status::from(error);
                if status.code() != http::StatusCode::GONE {
                    return Err(status);
                }
                self.fail(status);
                return Ok(());
            }
        };
        for entry in &found {
            self.note(entry)?;
        }
        self.position = revision;
        match self.follow(prefix, revision).await {
            Err(status) if status.code() == http::StatusCode::GONE => self.fail(status),
            Err(status) => return Err(status),
            // What has changed since is not told.
            Ok(()) => self.must_look = matches!(self.source, Source::Keys),
        }
        Ok(())
    }

    /// Notes what the client has.
    ///
    /// # Errors
    /// 429 if the caller makes the server remember too much.
    fn note(&mut self, entry: &Arc<Entry>) -> Result<(), Status> {
        if self.sent.insert(entry.key.clone(), entry.into()).is_some() {
            return Ok(());
        }
        let size = entry.key.len().saturating_add(OF_OBJECT);
        if !self.charge.grow(size) {
            return Err(Status::holds_too_much(self.held_bytes));
        }
        self.size = self.size.saturating_add(size);
        Ok(())
    }

    /// Notes that the client no longer has an object. Returns what it had.
    fn forget(&mut self, key: &str) -> Option<Sent> {
        let sent = self.sent.remove(key)?;
        self.size = self.size.saturating_sub(key.len().saturating_add(OF_OBJECT));
        self.charge.set(self.size);
        Some(sent)
    }

    /// Returns the pending events, up to the size of a chunk; none if none of them concerns this client.
    fn piece(&mut self) -> Option<Bytes> {
        let mut piece = Piece::default();
        while piece.len() < PIECE
            && let Some(item) = self.pending.pop_front()
        {
            match self.written(item) {
                Ok(events) => events.into_iter().flatten().for_each(|event| piece.add(event)),
                Err(status) => self.fail(status),
            }
        }
        // Frees the memory that a burst of events needed.
        if self.pending.is_empty() {
            self.pending = VecDeque::new();
        }
        piece.whole()
    }

    /// Renders an item as events: none if the client knows it, two if an object has taken the place of another.
    fn written(&mut self, item: Item) -> Result<[Option<Bytes>; 2], Status> {
        let (key, entry, revision) = match item {
            Item::State { key, entry, revision } => (key, entry, revision),
            Item::Bookmark(revision) => {
                let is_initial_end = std::mem::take(&mut self.is_beginning);
                return Ok([Some(self.writer.bookmark(revision, is_initial_end)?), None]);
            }
        };
        let known = self.sent.get(&key).map(|sent| (sent.created, sent.modified));
        let is_gone =
            known.is_some_and(|(created, _)| entry.as_ref().is_none_or(|entry| entry.created != created));
        let removed = if is_gone { Some(self.removed(&key, revision)?) } else { None };
        let Some(entry) = entry.filter(|entry| known.is_none_or(|(_, modified)| modified < entry.modified))
        else {
            return Ok([removed, None]);
        };
        let kind = if known.is_some() && !is_gone { "MODIFIED" } else { "ADDED" };
        let event = self.writer.present(kind, &entry)?;
        self.note(&entry)?;
        Ok([removed, Some(event)])
    }

    /// Renders that an object has gone, in the last state that the client was sent.
    ///
    /// # Errors
    /// 410 if the store no longer has that state, which is so only if the client is about to lose its place anyway.
    fn removed(&mut self, key: &str, revision: Revision) -> Result<Bytes, Status> {
        let last = self.forget(key).and_then(|sent| sent.entry.upgrade());
        let last =
            last.ok_or_else(|| Status::expired("too old resource version: the client reads too slowly"))?;
        self.writer.removed(&last, revision)
    }
}

const CHANGING: &str = "what the caller may get changes too often for a watch; try again";

/// Waits for a time, or forever.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
