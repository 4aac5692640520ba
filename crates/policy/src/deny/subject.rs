//! Whom a rule binds.

use super::pattern::Pattern;
use crate::identity::ACCOUNT_PREFIX;
use crate::request::User;

/// In more groups than this a user counts as bound by every rule for a group, and excepted by none: comparing takes time for each
/// group and each rule, and whoever asks chooses the groups.
pub(super) const MOST_GROUPS: usize = 1_000;

/// What is known of a user beside what the request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Whether this is the user name. If not, any name is possible.
    pub name: bool,
    /// Whether these are all groups. If not, any further one is possible.
    pub groups: bool,
}

/// Whom a rule binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    User(Pattern),
    Group(Pattern),
    ServiceAccount { namespace: Pattern, name: Pattern },
}

impl Subject {
    /// Whether this is the user. `if_unknown` is for a user in so many groups that they are not compared.
    pub(super) fn is(&self, user: &User, if_unknown: bool) -> bool {
        match self {
            Self::User(name) => name.matches(&user.name),
            Self::Group(_) if user.groups.len() > MOST_GROUPS => if_unknown,
            Self::Group(name) => user.groups.iter().any(|group| name.matches(group)),
            Self::ServiceAccount { namespace, name } => {
                let account = user.name.strip_prefix(ACCOUNT_PREFIX);
                account
                    .and_then(|account| account.split_once(':'))
                    .is_some_and(|(of, account)| namespace.matches(of) && name.matches(account))
            }
        }
    }

    /// Whether this may be somebody by what is not known of them.
    pub(super) fn may_be(&self, known: Known) -> bool {
        match self {
            Self::Group(_) => !known.groups,
            Self::User(_) | Self::ServiceAccount { .. } => !known.name,
        }
    }

    /// Whether everybody whom this names is surely named by the other one as well.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::User(one), Self::User(other)) | (Self::Group(one), Self::Group(other)) => {
                one.is_within(other)
            }
            (
                Self::ServiceAccount { namespace, name },
                Self::ServiceAccount { namespace: other_namespace, name: other_name },
            ) => namespace.is_within(other_namespace) && name.is_within(other_name),
            _ => false,
        }
    }
}
