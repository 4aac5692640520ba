//! Where the objects of a kind come from: here an API server.

use std::time::Duration;

use bytes::Bytes;
use portcullis_policy::objects::Kind;

use super::kinds::{Place, is_optional};
use crate::connect::Connection;
use crate::watched::{Event, Form, Texts};

/// What was heard of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// What has happened. Objects are JSON texts; of one that is gone, its name and namespace are enough.
    pub event: Event<Bytes>,
    /// No change up to this revision is missing after this event. It counts for none of [`Event::Restarted`] and
    /// [`Event::Listed`].
    pub revision: u64,
    /// The revision that the cluster had when the source last went on after a failure: changes up to it may be on their way. 0 if
    /// a list has started since.
    pub newest: u64,
}

/// Brings the objects of a kind: a list, and then all changes, for ever. After a failure it goes on where it was, or starts with
/// a list again. Something must be heard of a kind that does not change, too.
pub trait Source: Send + 'static {
    /// Waits for what is heard next.
    fn next(&mut self) -> impl Future<Output = News> + Send;
}

/// Follows a kind by an API server.
pub(super) struct ApiSource {
    kind: Kind,
    place: Place,
    texts: Texts,
    /// How many versions of the API the server did not have, one after the other.
    absent: usize,
    /// Whether an empty list has begun, because the server does not have the API.
    is_ending: bool,
}

impl ApiSource {
    /// None: the kind has no resource. A watch on which nothing arrives for `silence` is started again.
    pub(super) fn new(connection: &Connection, kind: Kind, silence: Duration) -> Option<Self> {
        let place = Place::of(kind)?;
        let form = if place.metadata_only { Form::Metadata } else { Form::Whole };
        let texts = Texts::new(connection, place.resource(0), None, (form, silence));
        Some(Self { kind, place, texts, absent: 0, is_ending: false })
    }

    /// Goes on with another version of the API, which the server did not have. Returns whether it has none of them.
    fn has_none(&mut self) -> bool {
        self.absent = self.absent.saturating_add(1);
        self.texts.move_to(self.place.resource(self.absent));
        self.place.is_absent(self.absent)
    }
}

impl Source for ApiSource {
    async fn next(&mut self) -> News {
        // Nothing of an API that the server does not have will be missing.
        let nothing = |event| News { event, revision: u64::MAX, newest: 0 };
        if std::mem::take(&mut self.is_ending) {
            return nothing(Event::Synced);
        }
        loop {
            let event = self.texts.next().await;
            match &event {
                Event::Synced => self.absent = 0,
                // Clusters of other releases have other versions of an API, or none: then there are no objects.
                Event::Failed { code: Some(404), why, .. } => {
                    let has_none = self.has_none();
                    if is_optional(self.kind) {
                        let kind = self.kind.as_str();
                        tracing::debug!(kind, why, "the server does not have this version of the API");
                        if has_none {
                            self.is_ending = true;
                            return nothing(Event::Restarted);
                        }
                        continue;
                    }
                }
                _ => {}
            }
            return News { event, revision: self.texts.revision(), newest: self.texts.newest() };
        }
    }
}
