//! Impersonation: acting as somebody else, by headers (AN-120 to AN-152).
//!
//! Who may is decided before the request itself is, which then goes on as the other user.
//!
//! DIVERGES: nothing is remembered of what was allowed (AN-149 keeps it for ten seconds): a right that is taken away is
//! gone at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use policy::request_info::RequestInfo;
use policy::{Attributes, ResourceRequest, User};
use portcullis_policy as policy;

use crate::authn::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED};
use crate::authz::{Authorization, Verdict, forbidden};
use crate::status::Status;

const AUTHENTICATION: &str = "authentication.k8s.io";
const NODE_PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";
const MASTERS: &str = "system:masters";
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const ACCOUNTS: &str = "system:serviceaccounts";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";
/// From so many groups or extra values on, a right to all of them is looked for first (AN-145, AN-146).
const MANY: usize = 4;
/// Of so many callers it is remembered which mode was theirs (AN-140).
const CALLERS: usize = 10_000;

/// Whom a request wants to act as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted(User);

impl Wanted {
    /// Reads the headers (AN-121, AN-122, AN-130). Nothing where there is no impersonation.
    ///
    /// # Errors
    /// 400 for groups, uid or extra values without a user.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Option<Self>, Status> {
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

    /// The namespace and name of a service account, if that is what is wanted (AN-123).
    fn account(&self) -> Option<(&str, &str)> {
        account(&self.0.name)
    }

    fn node(&self) -> Option<&str> {
        self.0.name.strip_prefix(NODE_PREFIX).filter(|name| is_subdomain(name))
    }

    fn is_name_only(&self) -> bool {
        self.0.uid.is_empty() && self.0.groups.is_empty() && self.0.extra.is_empty()
    }

    /// The user that a request goes on as (AN-124 to AN-126, AN-147).
    fn user(self, mode: Mode) -> User {
        let account = self.account().map(|(namespace, _)| format!("{ACCOUNTS}:{namespace}"));
        let Self(mut user) = self;
        match mode {
            Mode::AssociatedNode | Mode::ArbitraryNode => user.groups = vec![NODES.to_owned()],
            _ => {
                if let Some(account) = account.filter(|_| user.groups.is_empty()) {
                    user.groups = vec![ACCOUNTS.to_owned(), account];
                }
            }
        }
        if user.name == ANONYMOUS {
            if !user.in_group(UNAUTHENTICATED) {
                user.groups.push(UNAUTHENTICATED.to_owned());
            }
        } else if !user.in_group(AUTHENTICATED) && !user.in_group(UNAUTHENTICATED) {
            user.groups.push(AUTHENTICATED.to_owned());
        }
        user
    }
}

/// AN-122: the key of an extra value; as it is where it cannot be decoded.
pub(crate) fn unescaped(key: &str) -> String {
    let mut bytes = key.bytes();
    let mut decoded = Vec::with_capacity(key.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        match (digit(), digit()) {
            (Some(high), Some(low)) => decoded.push(u8::try_from(high * 16 + low).unwrap_or_default()),
            _ => return key.to_owned(),
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| key.to_owned())
}

fn account(name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = name.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    (is_label(namespace) && is_subdomain(name)).then_some((namespace, name))
}

fn is_label(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(is_inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

/// The ways in which impersonation can be allowed, in the order in which they are tried (AN-140).
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

    /// AN-142
    fn applies(self, caller: &User, wanted: &Wanted) -> bool {
        let node = wanted.node().filter(|_| wanted.is_name_only());
        match self {
            Self::AssociatedNode => {
                let own = caller.extra.get(NODE_NAME).map(Vec::as_slice);
                account(&caller.name).is_some()
                    && node.is_some_and(|node| matches!(own, Some([own]) if own == node))
            }
            Self::ArbitraryNode => node.is_some(),
            Self::ServiceAccount => wanted.account().is_some() && wanted.is_name_only(),
            Self::UserInfo => wanted.node().is_none() && wanted.account().is_none(),
            Self::Legacy => true,
        }
    }
}

/// Which mode allowed a caller last (AN-140).
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

/// A user whom a caller may act as. Only [`impersonate`] makes one.
#[derive(Debug)]
pub(crate) struct Impersonated(Arc<User>);

impl Impersonated {
    pub(crate) fn into_user(self) -> Arc<User> {
        self.0
    }
}

/// The user that a request goes on as.
///
/// # Errors
/// 403: the caller may not act as this user. Of several ways that failed the first one is told (AN-141).
pub(crate) async fn impersonate(
    authorization: &Authorization,
    remembered: &Remembered,
    caller: &User,
    wanted: Wanted,
    info: &RequestInfo,
) -> Result<Impersonated, Status> {
    let last = remembered.of(caller);
    let modes = last.into_iter().chain(Mode::ALL.into_iter().filter(|mode| Some(*mode) != last));
    let mut refusal = None;
    for mode in modes.filter(|mode| mode.applies(caller, &wanted)) {
        match check(authorization, mode, caller, &wanted, info).await {
            Ok(()) => {
                remembered.keep(caller, mode);
                return Ok(Impersonated(Arc::new(wanted.user(mode))));
            }
            Err(status) => refusal = refusal.or(Some(status)),
        }
    }
    // Legacy always applies, so there is a refusal.
    Err(refusal.unwrap_or_else(|| Status::internal("no way of impersonation was tried")))
}

async fn check(
    authorization: &Authorization,
    mode: Mode,
    caller: &User,
    wanted: &Wanted,
    info: &RequestInfo,
) -> Result<(), Status> {
    let known_by_keys;
    let mut caller = caller;
    // AN-144
    if mode == Mode::AssociatedNode {
        let keys = caller.extra.keys().cloned().collect();
        known_by_keys = User { extra: BTreeMap::from([(NODE_KEYS.to_owned(), keys)]), ..caller.clone() };
        caller = &known_by_keys;
    }
    let verb = match mode {
        Mode::Legacy => "impersonate".to_owned(),
        mode => {
            // AN-143, first the request, then the identity.
            let verb = format!("impersonate-on:{}:{}", mode.name(), info.verb());
            ask(authorization, &Attributes { verb: &verb, ..info.attributes(caller) }).await?;
            format!("impersonate:{}", mode.name())
        }
    };
    let identity = Identity { authorization, mode, caller, verb: &verb };
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

async fn ask(authorization: &Authorization, attributes: &Attributes<'_>) -> Result<(), Status> {
    let outcome = authorization.ask(attributes).await;
    if outcome.verdict == Verdict::Allow {
        return Ok(());
    }
    let reason = outcome.reason(attributes);
    // AN-150
    let reason = match outcome.error {
        Some(error) => format!("{error}: {reason}"),
        None => reason,
    };
    Err(forbidden(attributes, &reason))
}

/// The questions about who is wanted.
struct Identity<'a> {
    authorization: &'a Authorization,
    mode: Mode,
    caller: &'a User,
    verb: &'a str,
}

impl Identity<'_> {
    fn attributes<'r>(
        &'r self,
        resource: &'r str,
        subresource: &'r str,
        namespace: &'r str,
        name: &'r str,
    ) -> Attributes<'r> {
        let is_old = self.mode == Mode::Legacy && matches!(resource, "users" | "groups" | "serviceaccounts");
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
        ask(self.authorization, &self.attributes(resource, subresource, namespace, name)).await
    }

    fn refuse(&self, resource: &str, subresource: &str, name: &str, reason: &str) -> Result<(), Status> {
        Err(forbidden(&self.attributes(resource, subresource, "", name), reason))
    }

    /// AN-145
    async fn may_groups(&self, groups: &[String]) -> Result<(), Status> {
        if self.mode != Mode::Legacy {
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
        if self.mode != Mode::Legacy {
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

fn is_domain_prefixed(key: &str) -> bool {
    let is_lower = !key.contains(|c: char| c.is_uppercase());
    is_lower && key.split_once('/').is_some_and(|(domain, path)| is_subdomain(domain) && !path.is_empty())
}
