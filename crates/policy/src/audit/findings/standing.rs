//! Who is hosted, exposed and strong, and which namespaces are privileged (AU-34 to AU-38).

use std::collections::BTreeSet;

use hashbrown::HashSet;

use std::rc::Rc;

use super::powers::{StrongRoles, binds, escalates, proxies, signs_clients};
use crate::audit::Subject;
use crate::audit::in_force::InForce;
use crate::audit::rights::{Ask, Grants, Rights, Verbs};
use crate::audit::state::{Name, State};
use crate::identity::{ACCOUNTS, ANONYMOUS, AUTHENTICATED, NODE_USER_PREFIX, NODES_GROUP, UNAUTHENTICATED};

/// See the module.
pub(super) struct Standing<'a> {
    pub(super) state: &'a State,
    pub(super) grants: &'a Grants,
    /// The rules of the roles of the state.
    pub(super) in_force: Rc<InForce<'a>>,
    /// The accounts that something runs as.
    pub(super) hosted: BTreeSet<Subject>,
    /// Whether there is neither a pod nor a workload, so that every account that a binding names counts as hosted.
    pub(super) is_assumed: bool,
    /// The roles that make whoever is bound to them strong, of those that somebody may bind by name.
    pub(super) strong_roles: StrongRoles,
    /// The strong service accounts.
    pub(super) strong_accounts: BTreeSet<Name>,
    hosting: HashSet<String>,
    privileged: HashSet<String>,
}

impl<'a> Standing<'a> {
    pub(super) fn new(state: &'a State, grants: &'a Grants) -> Self {
        let hosted = state.hosted_accounts();
        let namespace = |subject: &Subject| match subject {
            Subject::ServiceAccount { namespace, .. } => Some(namespace.clone()),
            _ => None,
        };
        let facts = state.facts();
        let mut standing = Self {
            state,
            grants,
            in_force: Rc::new(InForce::new(&facts.rbac)),
            hosting: hosted.iter().filter_map(namespace).collect(),
            hosted,
            is_assumed: facts.pods.is_empty() && facts.templates.is_empty(),
            strong_roles: strong_roles(grants),
            strong_accounts: BTreeSet::new(),
            privileged: HashSet::from(["kube-system".to_owned()]),
        };
        standing.strong_accounts = standing.find_strong_accounts();
        let of_accounts = standing.strong_accounts.iter().map(|(namespace, _)| namespace.clone());
        standing.privileged.extend(of_accounts.collect::<Vec<_>>());
        standing
    }

    /// The same with other permissions, which differ for these subjects alone.
    pub(super) fn revised<'b>(&self, grants: &'b Grants, touched: &BTreeSet<Subject>) -> Standing<'b>
    where
        'a: 'b,
    {
        let has_group = touched.iter().any(|subject| matches!(subject, Subject::Group { .. }));
        let mut revised = Standing {
            state: self.state,
            grants,
            in_force: Rc::clone(&self.in_force),
            hosted: self.hosted.clone(),
            is_assumed: self.is_assumed,
            strong_roles: self.strong_roles.clone(),
            strong_accounts: BTreeSet::new(),
            hosting: self.hosting.clone(),
            privileged: HashSet::from(["kube-system".to_owned()]),
        };
        if has_group {
            revised.strong_accounts = revised.find_strong_accounts();
        } else {
            // A subject that lost something is strong only if it was before.
            let is_still_strong = |(namespace, name): &&Name| {
                let subject = Subject::ServiceAccount { namespace: namespace.clone(), name: name.clone() };
                !touched.contains(&subject) || revised.is_strong(&subject)
            };
            revised.strong_accounts = self.strong_accounts.iter().filter(is_still_strong).cloned().collect();
        }
        let of_accounts = revised.strong_accounts.iter().map(|(namespace, _)| namespace.clone());
        revised.privileged.extend(of_accounts.collect::<Vec<_>>());
        revised
    }

    /// The strong ones among the accounts of the state: objects, hosted ones, and those that bindings name.
    fn find_strong_accounts(&self) -> BTreeSet<Name> {
        let account = |subject: &Subject| match subject {
            Subject::ServiceAccount { namespace, name } => Some((namespace.clone(), name.clone())),
            _ => None,
        };
        let facts = self.state.facts();
        let bound: BTreeSet<Name> = self.grants.subjects().filter_map(account).collect();
        let mut known: BTreeSet<Name> = facts.accounts.keys().cloned().collect();
        known.extend(self.hosted.iter().filter_map(account));
        let mut strong: BTreeSet<Name> = BTreeSet::new();
        // Without a binding of its own, an account has what the accounts of its namespace have.
        let strong_namespaces: HashSet<String> = known
            .iter()
            .map(|(namespace, _)| namespace)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .filter(|namespace| self.is_strong(&Subject::group(format!("{ACCOUNTS}:{namespace}"))))
            .cloned()
            .collect();
        for (namespace, name) in bound.iter().chain(&known) {
            let subject = Subject::ServiceAccount { namespace: namespace.clone(), name: name.clone() };
            let key = (namespace.clone(), name.clone());
            let is_strong =
                strong_namespaces.contains(namespace) || (bound.contains(&key) && self.is_strong(&subject));
            if is_strong {
                strong.insert(key);
            }
        }
        strong
    }

    /// Whether a subject is strong (AU-37).
    pub(super) fn is_strong(&self, subject: &Subject) -> bool {
        is_strong(&self.grants.of(subject), &self.strong_roles)
    }

    /// Whether whoever steals a node has this subject (AU-35).
    pub(super) fn is_exposed(&self, subject: &Subject) -> bool {
        match subject {
            Subject::ServiceAccount { .. } => self.hosted.contains(subject),
            Subject::Group { name } => {
                let namespace = name.strip_prefix(ACCOUNTS).and_then(|rest| rest.strip_prefix(':'));
                matches!(name.as_str(), ACCOUNTS | AUTHENTICATED | UNAUTHENTICATED)
                    || namespace.is_some_and(|namespace| self.hosting.contains(namespace))
            }
            Subject::User { name } => name == ANONYMOUS,
            Subject::Node { .. } => false,
        }
    }

    /// Whether pods in a namespace can run as a strong account, or it is `kube-system` (AU-38).
    pub(super) fn is_privileged(&self, namespace: &str) -> bool {
        self.privileged.contains(namespace)
    }
}

/// The subject whose rights every subject of its kind has (AU-31); none for the widest ones.
pub(super) fn parent(subject: &Subject) -> Option<Subject> {
    let name = match subject {
        Subject::ServiceAccount { namespace, .. } => {
            return Some(Subject::group(format!("{ACCOUNTS}:{namespace}")));
        }
        Subject::Node { .. } => NODES_GROUP,
        Subject::User { name } if name == ANONYMOUS => UNAUTHENTICATED,
        Subject::User { name } if name.starts_with(NODE_USER_PREFIX) => NODES_GROUP,
        Subject::User { .. } => AUTHENTICATED,
        Subject::Group { name } => match name.as_str() {
            AUTHENTICATED | UNAUTHENTICATED => return None,
            name if name.strip_prefix(ACCOUNTS).is_some_and(|rest| rest.starts_with(':')) => ACCOUNTS,
            _ => AUTHENTICATED,
        },
    };
    Some(Subject::group(name))
}

/// Whether a subject is a node, or all nodes: a matter of PC105 alone.
pub(super) fn is_of_nodes(subject: &Subject) -> bool {
    match subject {
        Subject::Node { .. } => true,
        Subject::Group { name } => name == NODES_GROUP,
        Subject::User { name } => name.starts_with(NODE_USER_PREFIX),
        Subject::ServiceAccount { .. } => false,
    }
}

/// AU-37.
fn is_strong(rights: &Rights, roles: &StrongRoles) -> bool {
    rights.full.is_some()
        || rights.free(Ask::Secrets, Verbs::READ).is_some()
        || rights.free(Ask::Users, Verbs::IMPERSONATE).is_some()
        || rights.free(Ask::Accounts, Verbs::IMPERSONATE).is_some()
        || rights.free(Ask::Token, Verbs::CREATE).is_some()
        || rights.free(Ask::Pods, Verbs::CREATE).is_some()
        || rights.some(Ask::Exec, Verbs::CREATE).is_some()
        || !proxies(rights).is_empty()
        || !signs_clients(rights).is_empty()
        || !escalates(rights).is_empty()
        || !binds(rights, roles).is_empty()
}

/// The roles that make strong, of those that somebody may bind by name: also because they allow to bind such a role.
fn strong_roles(grants: &Grants) -> StrongRoles {
    let mut strong = StrongRoles::default();
    loop {
        let mut found = StrongRoles::default();
        for role @ (namespace, name) in grants.bindable() {
            let key = (namespace.map(str::to_owned), name.to_owned());
            let is_new = namespace.is_none() && !strong.everywhere.contains(name);
            if is_new && is_strong(&grants.of_bindable(role, None), &strong) {
                found.everywhere.insert(name.to_owned());
            }
            // A ClusterRole is tried in one namespace: it means the same in all.
            let inside = grants.of_bindable(role, Some(namespace.unwrap_or_default()));
            if !strong.inside.contains(&key) && is_strong(&inside, &strong) {
                found.role_names.extend(namespace.map(|_| name.to_owned()));
                found.inside.insert(key);
            }
        }
        if found.everywhere.is_empty() && found.inside.is_empty() {
            return strong;
        }
        strong.everywhere.extend(found.everywhere);
        strong.inside.extend(found.inside);
        strong.role_names.extend(found.role_names);
    }
}
