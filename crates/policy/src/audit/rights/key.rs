//! By which names bindings are found for a subject.

use crate::audit::Subject;

/// A user name or a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    User(String),
    Group(String),
}

/// The user name, and the groups that the API server gives to a subject (AU-31); its own key first.
pub(super) fn keys(subject: &Subject) -> Vec<Key> {
    let user = subject.clone().or_node().identity();
    let own = match subject {
        // The first of its groups.
        Subject::Group { .. } => None,
        _ => Some(Key::User(user.name)),
    };
    own.into_iter().chain(user.groups.into_iter().map(Key::Group)).collect()
}
