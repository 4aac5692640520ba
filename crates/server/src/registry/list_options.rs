//! The options of lists, watches and deletes of collections (AP-71 to AP-76, AP-80 to AP-84).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_apimachinery::quote::quoted;
use portcullis_apimachinery::selector::{SelectorError, parse_field_selector, parse_label_selector};
use portcullis_store::Revision;
use serde::{Deserialize, Serialize};

use super::options::{is_true, refuse};
use super::selection::Selection;
use super::target::Target;
use crate::http::query::Query;
use crate::http::status::Status;

/// The longest timeout of a watch: longer ones are shortened to it.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The options of a request for a collection.
#[derive(Clone, Debug)]
pub(crate) struct ListOptions {
    /// The selectors.
    pub(crate) selection: Selection,
    /// The maximum number of objects; zero for all.
    pub(crate) limit: usize,
    /// The continue token; empty for the first page.
    pub(crate) token: String,
    /// The requested resourceVersion; empty for the current state.
    pub(crate) resource_version: String,
    /// Whether exactly that revision is required.
    pub(crate) is_exact: bool,
    /// The timeout of a watch.
    pub(crate) timeout: Option<Duration>,
    /// Whether the watch sends bookmarks.
    pub(crate) wants_bookmarks: bool,
    /// Whether the watch starts with the existing objects.
    pub(crate) sends_initial: Option<bool>,
}

impl ListOptions {
    /// Parses the options of a list, a watch or a deletecollection.
    ///
    /// # Errors
    /// 400 for options that cannot be parsed and unsupported selectors, 422 for invalid combinations.
    pub(crate) fn read(query: &Query, target: &Target<'_>, is_watch: bool) -> Result<Self, Status> {
        let text = |name| query.first(name).unwrap_or_default();
        let number = |name: &str| match query.first(name) {
            None => Ok(0),
            Some(word) => word
                .parse::<i64>()
                .map_err(|error| Status::bad_request(format!("{name}: {}: {error}", quoted(word)))),
        };
        let bad = |error: SelectorError| Status::bad_request(error.to_string());
        let labels = parse_label_selector(text("labelSelector")).map_err(bad)?;
        let fields = parse_field_selector(text("fieldSelector")).map_err(bad)?;
        let limit = usize::try_from(number("limit")?).unwrap_or(0);
        let timeout = u64::try_from(number("timeoutSeconds")?).ok().filter(|seconds| *seconds > 0);
        // A time that far away could not be represented.
        let timeout = timeout.map(|seconds| Duration::from_secs(seconds).min(LONGEST));
        let sends_initial = query.first("sendInitialEvents").map(is_true);
        let matching = text("resourceVersionMatch");
        let (resource_version, token) = (text("resourceVersion"), text("continue"));
        let errors = if is_watch {
            watch_errors(matching, token, sends_initial)
        } else {
            list_errors(matching, resource_version, token, sends_initial)
        };
        refuse("ListOptions", errors)?;
        let mut selection = Selection::new(target.resource, labels, &fields)?;
        // A name in the path selects the object.
        if !target.name.is_empty() {
            selection.narrow_to(target.name)?;
        }
        Ok(Self {
            selection,
            limit,
            token: token.to_owned(),
            resource_version: resource_version.to_owned(),
            is_exact: matching == "Exact",
            timeout,
            wants_bookmarks: query.first("allowWatchBookmarks").is_some_and(is_true),
            sends_initial,
        })
    }
}

const MATCH: &str = "resourceVersionMatch";

fn unknown_match(matching: &str) -> FieldError {
    FieldError::not_supported(MATCH, quoted(matching), &["Exact", "NotOlderThan", ""])
}

/// AP-72
fn list_errors(matching: &str, version: &str, token: &str, sends_initial: Option<bool>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut forbid = |field: &str, detail: &str| errors.push(FieldError::forbidden(field, detail));
    if !matching.is_empty() {
        if version.is_empty() {
            forbid(MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if !token.is_empty() {
            forbid(MATCH, "resourceVersionMatch is forbidden when continue is provided");
        }
        if matching == "Exact" && version == "0" {
            forbid(MATCH, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
    }
    if sends_initial.is_some() {
        forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
    }
    if !matches!(matching, "" | "Exact" | "NotOlderThan") {
        errors.push(unknown_match(matching));
    }
    errors
}

/// AP-83, AP-84
fn watch_errors(matching: &str, token: &str, sends_initial: Option<bool>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut forbid = |detail: &str| errors.push(FieldError::forbidden(MATCH, detail));
    let is_fresh = matching == "NotOlderThan";
    if sends_initial.is_some() && !is_fresh {
        forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    if sends_initial.is_none() && !matching.is_empty() {
        forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    }
    if !token.is_empty() {
        forbid("resourceVersionMatch is forbidden when continue is provided");
    }
    if !matching.is_empty() && !is_fresh {
        errors.push(FieldError::not_supported(MATCH, quoted(matching), &["NotOlderThan"]));
    }
    errors
}

/// The revision of a continue token that stands for the newest.
const NEWEST: i64 = -1;

/// A continue token: the revision of the page (-1 for the newest, as in kube-apiserver), and the last key without the prefix of the
/// list. A forged token reveals nothing that the list would not: the key is only ever appended to the list's own prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    #[serde(rename = "rv")]
    revision: i64,
    after: String,
}

impl Token {
    /// Creates the token that continues after this key.
    pub(crate) fn after(revision: Revision, key: &str, prefix: &str) -> Self {
        let revision = i64::try_from(revision.0).unwrap_or(i64::MAX);
        Self { revision, after: key.strip_prefix(prefix).unwrap_or(key).to_owned() }
    }

    /// The token that continues at the same place, at the newest revision: not consistently.
    pub(crate) fn at_newest(&self) -> Self {
        Self { revision: NEWEST, after: self.after.clone() }
    }

    /// Returns the revision of the page; none for the newest.
    pub(crate) fn revision(&self) -> Option<Revision> {
        u64::try_from(self.revision).ok().map(Revision)
    }

    /// Returns the last key of the page.
    pub(crate) fn key(&self, prefix: &str) -> Box<str> {
        format!("{prefix}{}", self.after).into()
    }

    /// Encodes the token for clients.
    pub(crate) fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Decodes a token.
    ///
    /// # Errors
    /// 400 if it is not a valid token (AP-71).
    pub(crate) fn read(text: &str) -> Result<Self, Status> {
        let decoded = URL_SAFE_NO_PAD.decode(text).ok();
        let token = decoded.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        token
            .filter(|token| token.revision > 0 || token.revision == NEWEST)
            .ok_or_else(|| Status::bad_request("invalid continue token: it was not made by this server"))
    }
}

/// Parses a resourceVersion; none for `0` and for an empty one.
///
/// # Errors
/// It is not a number; the caller turns the error into a response.
pub(crate) fn revision(text: &str) -> Result<Option<Revision>, String> {
    match text {
        "" | "0" => Ok(None),
        // Go's ParseUint accepts only digits.
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => match digits.parse() {
            Ok(0) => Ok(None),
            Ok(revision) => Ok(Some(Revision(revision))),
            Err(error) => Err(format!("Invalid value: {}: {error}", quoted(text))),
        },
        _ => Err(format!("Invalid value: {}: not a number", quoted(text))),
    }
}
