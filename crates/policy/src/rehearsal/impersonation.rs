//! Whether somebody may still make requests as somebody else: the checks before a request with impersonation headers
//! (AN-123, AN-143 to AN-146), over what an event tells of them.
//!
//! An event has the groups of the request, and not which of them were asked for. Those that a server adds by itself are not
//! checked.

use super::event::Asked;
use crate::chain::{Chain, Outcome};
use crate::identity::{ACCOUNTS, AUTHENTICATED, NODE_USER_PREFIX, UNAUTHENTICATED, service_account};
use crate::request::{Attributes, ResourceRequest, User};

const LEGACY: &str = "impersonate";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// One check, by the user who impersonates.
#[derive(Clone, Debug)]
pub(super) struct Check {
    user: User,
    verb: String,
    group: &'static str,
    resource: &'static str,
    subresource: String,
    namespace: String,
    name: String,
}

impl Check {
    pub(super) fn attributes(&self) -> Attributes<'_> {
        let resource = ResourceRequest {
            namespace: &self.namespace,
            group: self.group,
            version: "v1",
            resource: self.resource,
            subresource: &self.subresource,
            name: &self.name,
            ..ResourceRequest::default()
        };
        Attributes { user: &self.user, verb: &self.verb, path: "", resource: Some(resource) }
    }
}

/// The first check that a chain refuses. None: it may be impersonated, by the verb by which it was (AN-151), or by the
/// legacy one.
pub(super) fn refused(
    chain: &Chain,
    caller: &User,
    constraint: &str,
    asked: &Asked,
) -> Option<(Check, Outcome)> {
    let by_legacy = || checked(chain, checks(caller, LEGACY, &asked.user));
    let Some(mode) = constraint.strip_prefix("impersonate:") else { return by_legacy() };
    let verb = format!("impersonate-on:{mode}:{}", asked.info.verb());
    let on_request = Attributes { verb: &verb, ..asked.info.attributes(caller) };
    if chain.decide(&on_request).is_allow()
        && checked(chain, checks(caller, constraint, &asked.user)).is_none()
    {
        return None;
    }
    by_legacy()
}

fn checked(chain: &Chain, checks: impl Iterator<Item = Check>) -> Option<(Check, Outcome)> {
    checks.map(|check| (chain.decide(&check.attributes()), check)).find_map(|(outcome, check)| {
        let is_refused = !outcome.is_allow();
        is_refused.then_some((check, outcome))
    })
}

/// The checks for an identity, in order (AN-123). Of a node or a service account by a constrained verb only its name was
/// asked for (AN-142).
fn checks<'a>(caller: &'a User, verb: &'a str, other: &'a User) -> impl Iterator<Item = Check> + 'a {
    let is_legacy = verb == LEGACY;
    let check = move |group, resource, subresource: &str, namespace: &str, name: &str| Check {
        user: caller.clone(),
        verb: verb.to_owned(),
        group: if is_legacy { group } else { AUTHENTICATION },
        resource,
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let identity = match (verb, service_account(&other.name)) {
        ("impersonate:associated-node", _) => check("", "nodes", "", "", "*"),
        ("impersonate:arbitrary-node", _) => {
            let name = other.name.strip_prefix(NODE_USER_PREFIX).unwrap_or(&other.name);
            check("", "nodes", "", "", name)
        }
        ("impersonate:serviceaccount" | LEGACY, Some((namespace, name))) => {
            check("", "serviceaccounts", "", namespace, name)
        }
        _ => check("", "users", "", "", &other.name),
    };
    let has_more = matches!(verb, LEGACY | "impersonate:user-info");
    let uid = Some(&other.uid).filter(|uid| !uid.is_empty());
    let uid = uid.map(move |uid| check(AUTHENTICATION, "uids", "", "", uid));
    let groups = other.groups.iter().filter(|group| !is_added(group, other));
    let groups = groups.map(move |group| check("", "groups", "", "", group));
    let extra = other.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
    let extra = extra.map(move |(key, value)| check(AUTHENTICATION, "userextras", key, "", value));
    std::iter::once(identity).chain(uid.into_iter().chain(groups).chain(extra).filter(move |_| has_more))
}

/// Whether a server adds a group to an impersonated user (AN-124, AN-125).
fn is_added(group: &str, user: &User) -> bool {
    let of_account = service_account(&user.name).is_some_and(|(namespace, _)| {
        group
            .strip_prefix(ACCOUNTS)
            .is_some_and(|rest| rest.is_empty() || rest.strip_prefix(':').is_some_and(|of| of == namespace))
    });
    of_account || matches!(group, AUTHENTICATED | UNAUTHENTICATED)
}
