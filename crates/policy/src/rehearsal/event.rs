//! Audit events: from the bytes of a log or of an API server's audit webhook to what authorizers are asked.
//!
//! This is the only reader of events, for rehearsals and for the audit. It reads what these need and skips the rest, above all the
//! bodies of responses; of bodies of requests it keeps nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::text::cut;
use super::unknown::Unknown;
use crate::request::{Attributes, ResourceRequest, User};
use crate::request_info::RequestInfo;

const API_VERSION: &str = "audit.k8s.io/v1";
/// How API servers begin each line of a log.
const LINE: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","#;
/// What servers append to a text of an event that they have cut.
const TRUNCATED: &str = "...TRUNCATED";

/// An `audit.k8s.io/v1` Event, as far as a decision depends on it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent<'a> {
    // Read elsewhere; here, so that a key that is there twice is an error.
    #[serde(default, rename = "kind")]
    _kind: IgnoredAny,
    #[serde(default, rename = "apiVersion")]
    _api_version: IgnoredAny,
    #[serde(borrow, rename = "auditID", default)]
    pub(super) audit_id: Cow<'a, str>,
    #[serde(borrow)]
    stage: Cow<'a, str>,
    #[serde(borrow, rename = "requestURI")]
    request_uri: Cow<'a, str>,
    /// Missing for a method that no resource knows.
    #[serde(borrow, default)]
    verb: Cow<'a, str>,
    #[serde(borrow)]
    user: Option<UserInfo<'a>>,
    #[serde(borrow)]
    impersonated_user: Option<UserInfo<'a>>,
    #[serde(borrow)]
    authentication_metadata: Option<AuthenticationMetadata<'a>>,
    #[serde(borrow)]
    object_ref: Option<ObjectReference<'a>>,
    response_status: Option<ResponseStatus>,
    #[serde(borrow, default)]
    pub(super) request_received_timestamp: Cow<'a, str>,
    #[serde(borrow)]
    annotations: Option<Annotations<'a>>,
    #[serde(borrow, default)]
    user_agent: Cow<'a, str>,
    #[serde(rename = "sourceIPs", default)]
    source_ips: Option<Vec<String>>,
    /// As text: nobody but the audit looks into it, and only into events of nodes.
    #[serde(borrow, default)]
    request_object: Option<&'a RawValue>,
}

#[derive(Clone, Debug, Deserialize)]
struct UserInfo<'a> {
    #[serde(borrow, default)]
    username: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(default)]
    groups: Option<Vec<String>>,
    #[serde(default)]
    extra: Option<BTreeMap<String, Option<Vec<String>>>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticationMetadata<'a> {
    #[serde(borrow, default)]
    impersonation_constraint: Cow<'a, str>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReference<'a> {
    #[serde(borrow, default)]
    resource: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    api_group: Cow<'a, str>,
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
}

#[derive(Clone, Debug, Deserialize)]
struct ResponseStatus {
    code: Option<i64>,
}

/// AC-124
#[derive(Clone, Debug, Deserialize)]
struct Annotations<'a> {
    #[serde(borrow, rename = "authorization.k8s.io/decision")]
    decision: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "authorization.k8s.io/reason")]
    reason: Option<Cow<'a, str>>,
}

/// The kinds of documents that hold events.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    items: Option<&'a RawValue>,
}

/// A document that is no event and no list of events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// The text is not JSON, or a field of the document is of another type.
    #[error("{0}")]
    NotJson(String),
    /// Another kind or version.
    #[error("kind {kind:?} of apiVersion {api_version:?}: must be an Event or an EventList of {API_VERSION}")]
    WrongKind {
        /// The `kind`, cut if it is long.
        kind: String,
        /// The `apiVersion`, cut if it is long.
        api_version: String,
    },
}

/// The stage of a request at which an event was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The request has arrived; nothing is decided.
    Received,
    /// The answer has begun, and takes longer: a watch, or a stream.
    Started,
    /// The answer is complete, or the server has failed.
    Ended,
}

/// The decision that an event tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    Allowed,
    Refused,
    /// Refused before anybody was authenticated.
    NotAuthenticated,
    /// Refused or failed before the authorizers were asked.
    NotAsked,
}

/// What the authorizers were asked.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) user: User,
    pub(super) info: RequestInfo,
}

impl Asked {
    pub(super) fn attributes(&self) -> Attributes<'_> {
        self.info.attributes(&self.user)
    }
}

/// Passes every event of a document to `take`: of an Event that one, of an EventList its items. An item that cannot be read
/// is passed as the reason, and stops no other.
///
/// # Errors
/// The document is no JSON, or of another kind. Items before an error of the text were passed.
pub fn each_event(
    document: &[u8],
    take: &mut dyn FnMut(Result<AuditEvent<'_>, String>),
) -> Result<(), DocumentError> {
    let not_json = |error: serde_json::Error| DocumentError::NotJson(error.to_string());
    let text = std::str::from_utf8(document)
        .map_err(|error| DocumentError::NotJson(format!("not UTF-8: {error}")))?;
    // Read once, where it is not needed to find out what it is.
    if text.starts_with(LINE)
        && let Ok(event) = read(text)
    {
        take(Ok(event));
        return Ok(());
    }
    let Document { kind, api_version, items } = serde_json::from_str(text).map_err(not_json)?;
    match (&*kind, &*api_version) {
        ("Event", API_VERSION) => {
            take(read(text));
            Ok(())
        }
        // Go writes an empty list as null.
        ("EventList", API_VERSION) => {
            let items = items.map_or("[]", |items| if items.get() == "null" { "[]" } else { items.get() });
            serde_json::Deserializer::from_str(items).deserialize_seq(Items(take)).map_err(not_json)
        }
        _ => Err(DocumentError::WrongKind { kind: cut(&kind), api_version: cut(&api_version) }),
    }
}

fn read(text: &str) -> Result<AuditEvent<'_>, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The items of a list, each read when it is reached: a list of any length takes no memory.
struct Items<'t>(&'t mut dyn FnMut(Result<AuditEvent<'_>, String>));

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&RawValue>()? {
            (self.0)(read(item.get()));
        }
        Ok(())
    }
}

/// What the audit asks of an event.
impl AuditEvent<'_> {
    /// The authenticated user: the name, and the groups.
    pub fn caller(&self) -> Option<(&str, &[String])> {
        let user = self.user.as_ref()?;
        Some((&user.username, user.groups.as_deref().unwrap_or_default()))
    }

    /// The first value of an extra field of the user.
    pub fn extra(&self, key: &str) -> Option<&str> {
        let extra = self.user.as_ref()?.extra.as_ref()?.get(key)?.as_ref()?;
        extra.first().map(String::as_str)
    }

    /// Whether the request was made in somebody else's name.
    pub fn is_impersonated(&self) -> bool {
        self.impersonated_user.is_some()
    }

    /// The program that made the request, as it says itself.
    pub fn user_agent(&self) -> &str {
        &self.user_agent
    }

    /// The address that the request came from, as the first proxy says.
    pub fn source(&self) -> Option<&str> {
        self.source_ips.as_ref()?.first().map(String::as_str)
    }

    /// When the request was received (RFC 3339).
    pub fn received(&self) -> &str {
        &self.request_received_timestamp
    }

    /// Whether the answer was no error; true for an event before the answer.
    pub fn is_success(&self) -> bool {
        self.response_status.as_ref().and_then(|status| status.code).is_none_or(|code| code < 400)
    }

    /// The body of the request, as text.
    pub fn request_object(&self) -> Option<&str> {
        self.request_object.map(RawValue::get)
    }

    /// The request as authorizers are asked about it, for a user.
    pub fn attributes<'e>(&'e self, user: &'e User) -> Attributes<'e> {
        let resource = self.object_ref.as_ref().map(|object| ResourceRequest {
            namespace: &object.namespace,
            group: &object.api_group,
            version: &object.api_version,
            resource: &object.resource,
            subresource: &object.subresource,
            name: &object.name,
            ..ResourceRequest::default()
        });
        let path = self.request_uri.split('?').next().unwrap_or_default();
        Attributes { user, verb: &self.verb, path, resource }
    }
}

impl AuditEvent<'_> {
    /// # Errors
    /// A stage that nobody knows.
    pub(super) fn stage(&self) -> Result<Stage, Unknown> {
        match &*self.stage {
            "RequestReceived" => Ok(Stage::Received),
            "ResponseStarted" => Ok(Stage::Started),
            "ResponseComplete" | "Panic" => Ok(Stage::Ended),
            _ => Err(Unknown::Undecodable),
        }
    }

    /// What tells this request from all others. A client chooses the ID, so that alone does not.
    pub(super) fn identity(&self) -> [&str; 5] {
        let user = self.user.as_ref().map_or("", |user| &user.username);
        [&self.audit_id, &self.request_received_timestamp, &self.request_uri, &self.verb, user]
    }

    /// The decision of the annotation (AC-124). Without it: what is known to be answered before the authorizers are asked is no
    /// decision. A 403 may be a refused impersonation.
    ///
    /// DIVERGES from AU-121, by which 2xx and 3xx are allowed: an API server annotates every decision, so such an event has
    /// lost something.
    ///
    /// # Errors
    /// It cannot be known what was decided.
    pub(super) fn past(&self) -> Result<Past, Unknown> {
        let annotations = self.annotations.as_ref();
        if let Some(decision) = annotations.and_then(|annotations| annotations.decision.as_deref()) {
            return match decision {
                "allow" => Ok(Past::Allowed),
                "forbid" => Ok(Past::Refused),
                _ => Err(Unknown::NoDecision),
            };
        }
        let was_asked = annotations.is_some_and(|annotations| annotations.reason.is_some());
        match self.response_status.as_ref().and_then(|status| status.code) {
            Some(401) if !was_asked => Ok(Past::NotAuthenticated),
            Some(400 | 408 | 413 | 429 | 431 | 500..=599) if !was_asked => Ok(Past::NotAsked),
            _ => Err(Unknown::NoDecision),
        }
    }

    /// The reason of the past decision.
    pub(super) fn past_reason(&self) -> &str {
        self.annotations.as_ref().and_then(|annotations| annotations.reason.as_deref()).unwrap_or_default()
    }

    /// What the authorizers were asked: the method and the target of the request, by the user that it was made as (AU-120).
    ///
    /// The name and namespace of `objectRef` are those of the body if the target has none. Authorizers have not seen them, so
    /// the target counts.
    ///
    /// # Errors
    /// A part is missing or cut, or the parts contradict each other.
    pub(super) fn asked(&self) -> Result<Asked, Unknown> {
        let user = self.impersonated_user.as_ref().or(self.user.as_ref()).ok_or(Unknown::Incomplete)?;
        if [&self.request_uri, &self.verb].iter().any(|text| text.ends_with(TRUNCATED)) {
            return Err(Unknown::Truncated);
        }
        if !self.request_uri.starts_with('/') {
            return Err(Unknown::Incomplete);
        }
        let info = RequestInfo::parse(&method_of(&self.verb), &self.request_uri)
            .map_err(|_| Unknown::Contradictory)?;
        if info.verb() != self.verb || !self.is_about(&info) {
            return Err(Unknown::Contradictory);
        }
        Ok(Asked { user: user.user()?, info })
    }

    /// Whether the reference to the object says the same as the target.
    fn is_about(&self, info: &RequestInfo) -> bool {
        let Some(object) = &self.object_ref else { return !info.is_resource_request() };
        let is_same = |told: &str, asked: &str| asked.is_empty() || told == asked;
        info.is_resource_request()
            && object.resource == info.resource()
            && object.subresource == info.subresource()
            && object.api_group == info.group()
            && object.api_version == info.version()
            && is_same(&object.namespace, info.namespace())
            && is_same(&object.name, info.name())
    }

    /// Who made the request as somebody else, and the verb by which that was allowed unless it was the legacy one (AN-151).
    ///
    /// # Errors
    /// The user is missing or incomplete.
    pub(super) fn impersonator(&self) -> Result<Option<(User, &str)>, Unknown> {
        if self.impersonated_user.is_none() {
            return Ok(None);
        }
        let user = self.user.as_ref().ok_or(Unknown::Incomplete)?.user()?;
        let metadata = self.authentication_metadata.as_ref();
        Ok(Some((user, metadata.map_or("", |metadata| &metadata.impersonation_constraint))))
    }
}

impl UserInfo<'_> {
    /// Every user has a group: at least that of all who are authenticated, or of all who are not.
    fn user(&self) -> Result<User, Unknown> {
        let groups = self.groups.clone().filter(|groups| !groups.is_empty()).ok_or(Unknown::NoGroups)?;
        let extra = self.extra.iter().flatten();
        Ok(User {
            name: self.username.clone().into_owned(),
            uid: self.uid.clone().into_owned(),
            groups,
            extra: extra.map(|(key, values)| (key.clone(), values.clone().unwrap_or_default())).collect(),
        })
    }
}

/// The method that a verb comes from (AC-20, AC-31). Those of HEAD and GET of an object are the same.
fn method_of(verb: &str) -> Cow<'_, str> {
    Cow::Borrowed(match verb {
        "create" => "POST",
        "update" => "PUT",
        "deletecollection" => "DELETE",
        "list" | "watch" | "proxy" => "GET",
        other => return Cow::Owned(other.to_uppercase()),
    })
}
