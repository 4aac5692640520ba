//! Impersonation by request headers (AN-120 to AN-152).
//!
//! Impersonation is authorized before the request itself, which then continues as the impersonated user.
//!
//! DIVERGES: decisions are not cached (AN-149 caches them for ten seconds), so a revoked permission is gone at once.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use http::HeaderMap;
use policy::identity::{add_implied_groups, bound_node, service_account};
use policy::request_info::RequestInfo;
use policy::{Attributes, ResourceRequest, User};
use portcullis_apimachinery::names::is_dns_subdomain;
use portcullis_apimachinery::percent;

use super::caller::Caller;
use super::impersonation_metrics::ImpersonationMetrics;
use crate::http::status::Status;

const AUTHENTICATION: &str = "authentication.k8s.io";
const NODE_PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";
const MASTERS: &str = "system:masters";
/// The prefix of all impersonation headers.
const PREFIX: &str = "impersonate-";
const NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";
/// With at least this many groups or extra values, permission for all of them is checked first (AN-145, AN-146).
const MANY: usize = 4;
/// The number of callers whose last mode is cached (AN-140).
const CALLERS: usize = 10_000;

/// The requested user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted(User);

impl Wanted {
    /// Parses the impersonation headers (AN-121, AN-122, AN-130). Returns none without impersonation.
    ///
    /// # Errors
    /// 400 for groups, UID or extra values without a user.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Option<Self>, Status> {
        // Most requests do not impersonate.
        if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
            return Ok(None);
        }
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
        let (name, uid) = (first("impersonate-user"), first("impersonate-uid"));
        let groups: Vec<String> = headers.get_all("impersonate-group").iter().map(text).collect();
        let mut extra = BTreeMap::<String, Vec<String>>::new();
        for (header, value) in headers {
            if let Some(key) = header.as_str().strip_prefix("impersonate-extra-") {
                extra.entry(unescaped(key)).or_default().push(text(value));
            }
        }
        if !name.is_empty() {
            return Ok(Some(Self(User { name, uid, groups, extra })));
        }
        if uid.is_empty() && groups.is_empty() && extra.is_empty() {
            return Ok(None);
        }
        Err(Status::bad_request(
            "impersonation of groups, uid or extra values needs the header Impersonate-User",
        ))
    }

    /// Returns the namespace and name if the requested user is a service account (AN-123).
    fn account(&self) -> Option<(&str, &str)> {
        service_account(&self.0.name)
    }

    fn node(&self) -> Option<&str> {
        self.0.name.strip_prefix(NODE_PREFIX).filter(|name| is_dns_subdomain(name))
    }

    fn is_name_only(&self) -> bool {
        self.0.uid.is_empty() && self.0.groups.is_empty() && self.0.extra.is_empty()
    }

    /// Returns the effective user of the request (AN-124 to AN-126, AN-147).
    fn user(self, mode: Mode) -> User {
        let Self(mut user) = self;
        if matches!(mode, Mode::AssociatedNode | Mode::ArbitraryNode) {
            user.groups = vec![NODES.to_owned()];
        }
        add_implied_groups(&mut user);
        user
    }
}

/// AN-122: unescapes the key of an extra value; an invalid one is unchanged.
pub(crate) fn unescaped(key: &str) -> String {
    let decoded = percent::decode(key).ok().and_then(|bytes| percent::utf8(bytes).ok());
    decoded.map_or_else(|| key.to_owned(), Cow::into_owned)
}

/// The ways in which impersonation can be allowed, in the order in which they are tried (AN-140, AN-148).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

impl Mode {
    const ALL: [Self; 5] =
        [Self::AssociatedNode, Self::ArbitraryNode, Self::ServiceAccount, Self::UserInfo, Self::Legacy];

    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    /// The name for metrics (AN-162).
    fn label(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            mode => mode.name(),
        }
    }

    /// The verb of the right to the identity.
    fn verb(self) -> String {
        match self {
            Self::Legacy => "impersonate".to_owned(),
            mode => format!("impersonate:{}", mode.name()),
        }
    }

    /// AN-142
    fn applies(self, caller: &User, wanted: &Wanted) -> bool {
        let node = wanted.node().filter(|_| wanted.is_name_only());
        match self {
            Self::AssociatedNode => node.is_some_and(|node| bound_node(caller) == Some(node)),
            Self::ArbitraryNode => node.is_some(),
            Self::ServiceAccount => wanted.account().is_some() && wanted.is_name_only(),
            Self::UserInfo => wanted.node().is_none() && wanted.account().is_none(),
            Self::Legacy => true,
        }
    }
}

/// The mode that last allowed each caller (AN-140).
#[derive(Default)]
pub(crate) struct Remembered(Mutex<HashMap<String, Mode>>);

impl Remembered {
    fn of(&self, caller: &User) -> Option<Mode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&caller.name).copied()
    }

    fn keep(&self, caller: &User, mode: Mode) {
        let mut modes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if modes.len() >= CALLERS {
            modes.clear();
        }
        modes.insert(caller.name.clone(), mode);
    }
}

/// A user that the caller may impersonate. Only [`impersonate`] creates one.
#[derive(Debug)]
pub(crate) struct Impersonated {
    user: Arc<User>,
    mode: Mode,
}

impl Impersonated {
    pub(crate) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// The verb by which impersonation was allowed, unless that was the legacy one (AN-151).
    pub(crate) fn constraint(&self) -> Option<String> {
        (self.mode != Mode::Legacy).then(|| self.mode.verb())
    }
}

impl Caller {
    /// Returns the caller acting as the impersonated user (AN-152).
    pub(crate) fn acting_as(self, other: Impersonated) -> Self {
        let original = self.original.unwrap_or(self.user);
        Self { user: other.user, original: Some(original), ..self }
    }
}

/// Whoever decides whether a caller may impersonate.
pub(crate) trait Authorizer: Sync {
    /// Whether this may be done.
    ///
    /// # Errors
    /// The refusal to answer with (AN-150).
    fn allow(&self, attributes: &Attributes<'_>) -> impl Future<Output = Result<(), Status>> + Send;

    /// The refusal to answer with, for this reason.
    fn refusal(attributes: &Attributes<'_>, reason: &str) -> Status;
}

/// The authorizer, whose answers are counted (AN-162).
struct Counted<'a, A> {
    authorizer: &'a A,
    metrics: &'a ImpersonationMetrics,
    mode: Mode,
}

impl<A: Authorizer> Counted<'_, A> {
    async fn allow(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let started = Instant::now();
        let answer = self.authorizer.allow(attributes).await;
        self.metrics.checked(self.mode.label(), answer.is_ok(), started.elapsed());
        answer
    }
}

/// Authorizes impersonation, counts it (AN-162), and returns the effective user.
///
/// # Errors
/// 403 (AN-127) if the caller may not impersonate this user. If several modes failed, the error of the first one is returned
/// (AN-141).
pub(crate) async fn impersonate<A: Authorizer>(
    authorizer: &A,
    (remembered, metrics): (&Remembered, &ImpersonationMetrics),
    caller: &User,
    wanted: Wanted,
    info: &RequestInfo,
) -> Result<Impersonated, Status> {
    let started = Instant::now();
    let outcome = resolve(authorizer, (remembered, metrics), caller, wanted, info).await;
    metrics.attempted(outcome.as_ref().ok().map(|other| other.mode.label()), started.elapsed());
    outcome
}

async fn resolve<A: Authorizer>(
    authorizer: &A,
    (remembered, metrics): (&Remembered, &ImpersonationMetrics),
    caller: &User,
    wanted: Wanted,
    info: &RequestInfo,
) -> Result<Impersonated, Status> {
    let last = remembered.of(caller);
    let modes = last.into_iter().chain(Mode::ALL.into_iter().filter(|mode| Some(*mode) != last));
    let mut refusal = None;
    for mode in modes.filter(|mode| mode.applies(caller, &wanted)) {
        let authorizer = Counted { authorizer, metrics, mode };
        match check(&authorizer, caller, &wanted, info).await {
            Ok(()) => {
                remembered.keep(caller, mode);
                return Ok(Impersonated { user: Arc::new(wanted.user(mode)), mode });
            }
            Err(status) => refusal = refusal.or(Some(status)),
        }
    }
    // Mode Legacy always applies, so there is a refusal.
    Err(refusal.unwrap_or_else(|| Status::internal("no impersonation mode was tried")))
}

async fn check<A: Authorizer>(
    authorizer: &Counted<'_, A>,
    caller: &User,
    wanted: &Wanted,
    info: &RequestInfo,
) -> Result<(), Status> {
    let mode = authorizer.mode;
    let known_by_keys;
    let mut caller = caller;
    // AN-144
    if mode == Mode::AssociatedNode {
        let keys = caller.extra.keys().cloned().collect();
        known_by_keys = User { extra: BTreeMap::from([(NODE_KEYS.to_owned(), keys)]), ..caller.clone() };
        caller = &known_by_keys;
    }
    let verb = match mode {
        Mode::Legacy => mode.verb(),
        mode => {
            // AN-143: first the request, then the identity.
            let verb = format!("impersonate-on:{}:{}", mode.name(), info.verb());
            authorizer.allow(&Attributes { verb: &verb, ..info.attributes(caller) }).await?;
            mode.verb()
        }
    };
    let identity = Identity { authorizer, caller, verb: &verb };
    match (mode, wanted.node(), wanted.account()) {
        (Mode::AssociatedNode, ..) => identity.may("nodes", "", "", "*").await,
        (Mode::ArbitraryNode, Some(node), _) => identity.may("nodes", "", "", node).await,
        (Mode::ServiceAccount | Mode::Legacy, _, Some((namespace, name))) => {
            identity.may("serviceaccounts", "", namespace, name).await
        }
        _ => identity.may("users", "", "", &wanted.0.name).await,
    }?;
    if !wanted.0.uid.is_empty() {
        identity.may("uids", "", "", &wanted.0.uid).await?;
    }
    identity.may_groups(&wanted.0.groups).await?;
    identity.may_extra(&wanted.0.extra).await
}

/// The access checks for the requested identity (AN-123, AN-129).
struct Identity<'a, A> {
    authorizer: &'a Counted<'a, A>,
    caller: &'a User,
    verb: &'a str,
}

impl<A: Authorizer> Identity<'_, A> {
    fn attributes<'r>(
        &'r self,
        resource: &'r str,
        subresource: &'r str,
        namespace: &'r str,
        name: &'r str,
    ) -> Attributes<'r> {
        let is_old = self.authorizer.mode == Mode::Legacy
            && matches!(resource, "users" | "groups" | "serviceaccounts");
        let group = if is_old { "" } else { AUTHENTICATION };
        let resource = ResourceRequest {
            namespace,
            group,
            version: "v1",
            resource,
            subresource,
            name,
            ..ResourceRequest::default()
        };
        Attributes { user: self.caller, verb: self.verb, path: "", resource: Some(resource) }
    }

    async fn may(
        &self,
        resource: &str,
        subresource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), Status> {
        self.authorizer.allow(&self.attributes(resource, subresource, namespace, name)).await
    }

    fn refuse(&self, resource: &str, subresource: &str, name: &str, reason: &str) -> Result<(), Status> {
        Err(A::refusal(&self.attributes(resource, subresource, "", name), reason))
    }

    /// AN-145
    async fn may_groups(&self, groups: &[String]) -> Result<(), Status> {
        if self.authorizer.mode != Mode::Legacy {
            if let Some(group) = groups.iter().find(|group| group.is_empty() || *group == MASTERS) {
                return self.refuse("groups", "", group, "this group cannot be impersonated");
            }
            if groups.len() >= MANY && self.may("groups", "", "", "*").await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            self.may("groups", "", "", group).await?;
        }
        Ok(())
    }

    /// AN-146
    async fn may_extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        if self.authorizer.mode != Mode::Legacy {
            for (key, values) in extra {
                if !is_domain_prefixed(key) {
                    return self.refuse(
                        "userextras",
                        key,
                        "",
                        "the key must be a lower-case domain-prefixed path",
                    );
                }
                if values.is_empty() || values.iter().any(String::is_empty) {
                    return self.refuse("userextras", key, "", "a value is empty");
                }
            }
            let count: usize = extra.values().map(Vec::len).sum();
            if (extra.len() >= MANY || count >= MANY) && self.may("userextras", "*", "", "*").await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.may("userextras", key, "", value).await?;
            }
        }
        Ok(())
    }
}

/// Whether a key of extra is a lower-case domain-prefixed path.
pub(super) fn is_domain_prefixed(key: &str) -> bool {
    let is_lower = !key.contains(|c: char| c.is_uppercase());
    is_lower && key.split_once('/').is_some_and(|(domain, path)| is_dns_subdomain(domain) && !path.is_empty())
}
