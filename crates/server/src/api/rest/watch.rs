//! Watches: the initial objects, then changes (AP-80 to AP-85).
//!
//! DIVERGES: a watch from a revision in the future waits for ten seconds, not forever: a server that was restored from a
//! backup would otherwise leave its clients without a single event until it has counted that far again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kinds::resource::Resource;
use portcullis_store::{Entry, Event, List, Revision, Store as _, StoreError, Watch as _};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::render::View;
use super::request::Request;
use super::watch_events::{self, EventWriter, PIECE, Piece, spread, too_old};
use crate::http::body::Body;
use crate::http::negotiate;
use crate::http::status::{Answer, Status};
use crate::registry::backend::BackendWatch;
use crate::registry::list_options::{self, ListOptions};
use crate::registry::selection::Selection;
use crate::registry::{freshness, list, storage};

/// How long a watch waits for the revision from which it begins.
const PATIENCE: Duration = Duration::from_secs(10);

/// Streams the changes of a collection.
pub(crate) async fn answer(request: &Request<'_>, view: &View) -> Result<Answer, Status> {
    let scope = &request.scope;
    let options = ListOptions::read(&request.query, &scope.target, true)?;
    if view.is(negotiate::View::PartialList) {
        view.allow(false)?;
    }
    let asked = list_options::revision(&options.resource_version).map_err(Status::unknown)?;
    let prefix = match options.selection.name() {
        Some(name) if !scope.target.namespace.is_empty() || !scope.target.resource.is_namespaced => {
            list::prefix(scope) + name
        }
        _ => list::prefix(scope),
    };
    // AP-81, AP-84: the existing objects come first unless changes since a revision are requested.
    let bookmarks = request.app.limits().bookmarks;
    let begins_with_all = options.sends_initial.unwrap_or(asked.is_none());
    let part = options.selection.part(scope.target.resource).map(str::to_owned);
    let watch = async |after| match &part {
        Some(part) => scope.backend.watch_part(&prefix, part, after).await,
        None => scope.backend.watch(&prefix, after).await,
    };
    let mut stream = Box::new(Stream {
        writer: EventWriter::new(request.app, *view, scope.target.resource),
        resource: scope.target.resource,
        selection: options.selection,
        pending: VecDeque::new(),
        ends: Instant::now() + options.timeout.map_or_else(spread, Ok)?,
        bookmark: options.wants_bookmarks.then(|| Instant::now() + bookmarks),
        bookmarks,
        stopping: request.app.stopping(),
        after: Revision(0),
        patience: None,
        changes: Changes::Failed(None),
    });
    let after = match (begins_with_all, asked) {
        (false, Some(revision)) => revision,
        (false, None) => scope.backend.revision(),
        (true, asked) => {
            match asked {
                Some(_) => scope.wait_for(asked).await?,
                // AP-84: a watch that begins with everything that is there is a read of the newest state.
                None if options.sends_initial == Some(true) && options.resource_version.is_empty() => {
                    freshness::fresh(scope.backend).await?;
                }
                None => {}
            }
            let list = List {
                prefix: prefix.as_str().into(),
                part: part.as_deref().map(Into::into),
                ..List::default()
            };
            let listing = scope.listed(&list).await?;
            stream.pending.extend(listing.entries.into_iter().map(Item::Present));
            if options.wants_bookmarks {
                stream.pending.push_back(Item::Bookmark { revision: listing.revision, is_initial_end: true });
            }
            listing.revision
        }
    };
    stream.after = after;
    stream.changes = match watch(after).await {
        Ok(watch) => Changes::Running(watch),
        // The watch waits until the revision is reached.
        Err(StoreError::Future { newest, .. }) => {
            stream.patience = Some(Instant::now() + PATIENCE);
            Changes::Running(watch(newest).await.map_err(|error| storage::failed(&error))?)
        }
        Err(error @ StoreError::Compacted { .. }) => Changes::Failed(Some(too_old(&error))),
        Err(error) => return Err(storage::failed(&error)),
    };
    Ok(watch_events::answer(view, Body::unfold(stream, Stream::next)))
}

/// An item to send.
enum Item {
    /// An existing object.
    Present(Arc<Entry>),
    /// A change.
    Change(Event),
    /// The progress of the watch.
    Bookmark { revision: Revision, is_initial_end: bool },
}

enum Changes {
    Running(BackendWatch),
    /// An error, which is the last event.
    Failed(Option<Status>),
}

/// The state of one watch.
struct Stream {
    writer: EventWriter,
    resource: &'static Resource,
    selection: Selection,
    pending: VecDeque<Item>,
    ends: Instant,
    /// The time of the next bookmark, if bookmarks are wanted.
    bookmark: Option<Instant>,
    /// The interval between bookmarks.
    bookmarks: Duration,
    stopping: watch::Receiver<bool>,
    /// Only changes after this revision are sent.
    after: Revision,
    /// The time at which a revision that was in the future must have been reached.
    patience: Option<Instant>,
    changes: Changes,
}

impl Stream {
    /// Returns the next chunk; none at the end.
    ///
    /// The state is on the heap: an argument would occupy twice its size, and there may be many watches.
    async fn next(mut self: Box<Self>) -> Option<(Bytes, Box<Self>)> {
        loop {
            if let Some(piece) = self.piece() {
                return Some((piece, self));
            }
            if self.ends <= Instant::now() {
                return None;
            }
            let due = self.due();
            let watch = match &mut self.changes {
                Changes::Running(watch) => watch,
                Changes::Failed(status) => {
                    let piece = self.writer.error(&status.take()?).ok()?;
                    return Some((piece, self));
                }
            };
            let stopping = async {
                // The sender lives as long as the server.
                let _ = self.stopping.wait_for(|stopping| *stopping).await;
            };
            tokio::select! {
                biased;
                () = stopping => return None,
                events = watch.next() => match events {
                    Ok(events) => {
                        let after = self.after;
                        let wanted = events.into_iter().filter(|event| event.revision > after);
                        self.pending.extend(wanted.map(Item::Change));
                    }
                    Err(error @ StoreError::Compacted { .. }) => {
                        self.changes = Changes::Failed(Some(too_old(&error)));
                    }
                    Err(error) => self.changes = Changes::Failed(Some(storage::failed(&error))),
                },
                // One timer for everything that is due at a time. Changes that are there come before it.
                () = sleep_until(due) => {
                    let reached = watch.revision();
                    self.do_due(reached);
                }
            }
        }
    }

    /// The time of the next bookmark, of the end of the patience, or of the end of the watch, whichever is first.
    fn due(&self) -> Instant {
        [self.bookmark, self.patience].into_iter().flatten().fold(self.ends, Instant::min)
    }

    /// Ends the patience or adds a bookmark, if it is time. All changes up to the revision that is reached were sent.
    fn do_due(&mut self, reached: Revision) {
        let now = Instant::now();
        if self.patience.take_if(|end| *end <= now).is_some() && reached < self.after {
            let asked = self.after.0;
            let why = format!("too large resource version: {asked}, current: {}", reached.0);
            self.changes = Changes::Failed(Some(Status::expired(why)));
            return;
        }
        if self.bookmark.take_if(|at| *at <= now).is_some() {
            self.bookmark = Some(now + self.bookmarks);
            if reached >= self.after {
                self.pending.push_back(Item::Bookmark { revision: reached, is_initial_end: false });
            }
        }
    }

    /// Returns the pending events, up to the size of a chunk; none if none of them concerns this client.
    fn piece(&mut self) -> Option<Bytes> {
        let mut piece = Piece::default();
        while piece.len() < PIECE
            && let Some(item) = self.pending.pop_front()
        {
            match self.written(&item) {
                Ok(event) => event.into_iter().for_each(|event| piece.add(event)),
                Err(status) => {
                    self.pending.clear();
                    self.changes = Changes::Failed(Some(status));
                }
            }
        }
        // Frees the memory that a burst of events needed.
        if self.pending.is_empty() {
            self.pending = VecDeque::new();
        }
        piece.whole()
    }

    /// Renders an item as a line; none if it does not concern this client (AP-82).
    fn written(&mut self, item: &Item) -> Result<Option<Bytes>, Status> {
        let (resource, selection) = (self.resource, &self.selection);
        let event = match item {
            Item::Present(entry) if selection.has(resource, entry)? => self.writer.present("ADDED", entry),
            Item::Present(_) => return Ok(None),
            Item::Bookmark { revision, is_initial_end } => self.writer.bookmark(*revision, *is_initial_end),
            Item::Change(event) => {
                let has = |entry: &Option<Arc<Entry>>| match entry {
                    Some(entry) => selection.has(resource, entry),
                    None => Ok(false),
                };
                match (has(&event.previous)?, has(&event.entry)?, &event.entry, &event.previous) {
                    (false, true, Some(entry), _) => self.writer.present("ADDED", entry),
                    (true, true, Some(entry), _) => self.writer.present("MODIFIED", entry),
                    (true, false, _, Some(last)) => self.writer.removed(last, event.revision),
                    _ => return Ok(None),
                }
            }
        };
        event.map(Some)
    }
}
