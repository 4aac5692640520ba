//! The subjects that are found while the modes are gone through in order, and what the modes before one keep from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::answer::{Listed, Lists};
use super::way::Way;
use crate::audit::Subject;
use crate::deny::{Denial, DenyAuthorizer, Known};
use crate::request::{Attributes, ResourceRequest};

/// What it depends on whether a subject can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dependence {
    /// A webhook is asked first.
    Webhook,
    /// A deny rule selects by the labels of the namespace, which are not known.
    Namespace { rule: String },
    /// A deny rule has exceptions.
    Exception { rule: String },
    /// The account is node-scoped.
    Token,
}

impl fmt::Display for Dependence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Webhook => f.write_str("unless the webhook, which is asked before, denies it"),
            Self::Namespace { rule } => write!(
                f,
                "unless the namespace, whose labels are not known, is one of those that deny rule {rule:?} selects"
            ),
            Self::Exception { rule } => write!(f, "only who is excepted from deny rule {rule:?}"),
            Self::Token => f.write_str("only with a token that is bound to a pod on the node of the object"),
        }
    }
}

/// The modes that were asked before.
#[derive(Default)]
pub(super) struct Before<'c> {
    pub(super) denies: Vec<&'c DenyAuthorizer>,
    pub(super) has_webhook: bool,
}

/// What the modes before leave to a subject.
enum Left {
    All,
    Depends(Dependence),
    Nothing,
}

impl Before<'_> {
    fn leaves(&self, subject: &Subject, attributes: &Attributes<'_>) -> Left {
        if self.denies.is_empty() && !self.has_webhook {
            return Left::All;
        }
        let user = subject.identity();
        let attributes = Attributes { user: &user, ..*attributes };
        let mut depends = self.has_webhook.then_some(Dependence::Webhook);
        for deny in &self.denies {
            match deny.denial(&attributes, known(subject)) {
                Some(Denial::Certain) => return Left::Nothing,
                Some(Denial::UnlessExcepted(rule)) => depends = Some(Dependence::Exception { rule }),
                Some(Denial::IfSelected(rule)) => depends = Some(Dependence::Namespace { rule }),
                Some(Denial::UnlessOnNode) => depends = Some(Dependence::Token),
                None => {}
            }
        }
        depends.map_or(Left::All, Left::Depends)
    }
}

/// What the identity of a subject tells. Members of a group may be anybody, and users in any further group.
fn known(subject: &Subject) -> Known {
    match subject {
        Subject::Group { .. } => Known { name: false, groups: false },
        Subject::User { .. } => Known { name: true, groups: false },
        Subject::Node { .. } | Subject::ServiceAccount { .. } => Known { name: true, groups: true },
    }
}

/// What is known of a subject in one of the lists.
#[derive(Default)]
pub(super) struct Entry {
    ways: Vec<Way>,
    names: BTreeSet<String>,
    pub(super) depends: Option<Dependence>,
}

/// The lists.
type Entries = BTreeMap<Subject, Entry>;

/// See the module.
#[derive(Default)]
pub(super) struct Found {
    can: Entries,
    undecided: Entries,
    limited: Entries,
    pending: Entries,
}

/// A way that a mode gives to a subject.
pub(super) struct Given<'n> {
    pub(super) way: Way,
    /// The names for which it counts; empty for the request as it is.
    pub(super) names: &'n [String],
    /// Whether a role must get the rule first.
    pub(super) is_pending: bool,
}

impl Found {
    /// Notes that a subject can, whatever the modes say.
    pub(super) fn can(&mut self, subject: Subject, way: Way) {
        self.can.entry(subject).or_default().ways.push(way);
    }

    /// Notes what a mode gives to a subject, as far as the modes before leave it.
    pub(super) fn give(
        &mut self,
        subject: Subject,
        given: Given<'_>,
        before: &Before<'_>,
        attributes: &Attributes<'_>,
    ) {
        let Given { way, names, is_pending } = given;
        let mut left: BTreeSet<String> = BTreeSet::new();
        let mut depends = None;
        let request = attributes.resource.unwrap_or_default();
        let asked: Vec<Option<&String>> =
            if names.is_empty() { vec![None] } else { names.iter().map(Some).collect() };
        let mut is_left = false;
        for name in asked {
            let named = name.map(|name| ResourceRequest { name, ..request });
            let attributes = Attributes { resource: named.or(attributes.resource), ..*attributes };
            match before.leaves(&subject, &attributes) {
                Left::Nothing => continue,
                Left::Depends(dependence) => depends = Some(dependence),
                Left::All => {}
            }
            is_left = true;
            left.extend(name.cloned());
        }
        if !is_left {
            return;
        }
        let list = match (&depends, is_pending, left.is_empty()) {
            (_, true, _) => &mut self.pending,
            (Some(_), false, _) => &mut self.undecided,
            (None, false, true) => &mut self.can,
            (None, false, false) => &mut self.limited,
        };
        let entry = list.entry(subject).or_default();
        entry.ways.push(way);
        entry.names.append(&mut left);
        entry.depends = entry.depends.take().or(depends);
    }

    /// Those who can.
    pub(super) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.can.keys()
    }

    /// Whether a subject can.
    pub(super) fn has(&self, subject: &Subject) -> bool {
        self.can.contains_key(subject)
    }

    /// What those who are undecided depend on.
    pub(super) fn dependences(&self) -> impl Iterator<Item = &Dependence> {
        self.undecided.values().filter_map(|entry| entry.depends.as_ref())
    }

    /// The lists of an answer. Who can is in no other list. `admission` says what may refuse a subject what is allowed here.
    pub(super) fn lists(self, admission: impl Fn(&Subject) -> Option<&'static str>) -> Lists {
        let Self { can, mut undecided, mut limited, mut pending } = self;
        for others in [&mut undecided, &mut limited, &mut pending] {
            others.retain(|subject, _| !can.contains_key(subject));
        }
        let list = |entries: Entries| {
            let listed = entries.into_iter().map(|(subject, entry)| {
                let Entry { mut ways, names, depends } = entry;
                ways.sort_by_cached_key(Way::key);
                Listed {
                    admission: admission(&subject),
                    subject,
                    resource_names: names.into_iter().collect(),
                    depends: depends.map(|depends| depends.to_string()),
                    through: ways,
                }
            });
            listed.collect()
        };
        Lists {
            subjects: list(can),
            limited: list(limited),
            pending: list(pending),
            undecided: list(undecided),
        }
    }
}
