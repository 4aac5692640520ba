//! Who gets filtered lists (BC-40): lists and watches of what a caller may get, instead of 403. Off unless it is configured.

use http::{HeaderMap, HeaderName, HeaderValue};
use policy::User;
use portcullis_apimachinery::quote::quoted;
use portcullis_client::metrics::Counter;
use prometheus_client::registry::Registry;

use crate::http::status::Status;

/// The header with which a client asks for filtered lists, and which marks them.
pub const HEADER: HeaderName = HeaderName::from_static("portcullis-filter");

/// Who gets filtered lists (`--filter-lists`, `--filter-lists-for`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterLists {
    /// None for nobody.
    groups: Option<Vec<String>>,
}

impl FilterLists {
    /// Whoever asks for them, and the members of these groups.
    pub fn on(groups: Vec<String>) -> Self {
        Self { groups: Some(groups) }
    }

    /// Whether anybody may get them.
    pub fn is_on(&self) -> bool {
        self.groups.is_some()
    }

    /// Whether a request is for a filtered list if the whole one is not allowed. The header decides, then the groups of the user.
    ///
    /// # Errors
    /// 400 for a header that says neither yes nor no.
    pub(super) fn asks(&self, headers: &HeaderMap, user: &User) -> Result<bool, Status> {
        let Some(groups) = &self.groups else { return Ok(false) };
        match headers.get(HEADER).map(HeaderValue::as_bytes) {
            None => Ok(groups.iter().any(|group| user.in_group(group))),
            Some(b"true") => Ok(true),
            Some(b"false") => Ok(false),
            Some(other) => Err(Status::bad_request(format!(
                "the header Portcullis-Filter is {}; it must be true or false",
                quoted(&String::from_utf8_lossy(other))
            ))),
        }
    }
}

/// The counts of filtered lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterMetrics {
    /// Lists and pages of lists.
    pub(crate) lists: Counter,
    /// Watches.
    pub(crate) watches: Counter,
    /// How often a watch has looked through its collection, at its start or because rights may have changed.
    pub(crate) scans: Counter,
}

impl FilterMetrics {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "portcullis_filtered_lists_total",
            "Lists and pages of lists that showed the part of a collection that the caller may get",
            metrics.lists.clone(),
        );
        registry.register(
            "portcullis_filtered_watches_total",
            "Watches that showed the part of a collection that the caller may get",
            metrics.watches.clone(),
        );
        registry.register(
            "portcullis_filtered_watch_scans_total",
            "How often filtered watches looked through their collection",
            metrics.scans.clone(),
        );
        metrics
    }
}
