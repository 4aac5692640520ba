//! For whom a token vouches.

use std::sync::Arc;

use hashbrown::HashSet;
use policy::User;

use super::caller::Caller;

/// Remarks on a credential that was accepted.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    /// For the client.
    pub(super) warning: Option<&'static str>,
    /// For the audit log.
    pub(super) annotations: Vec<(&'static str, String)>,
}

/// The user of a token, and the accepted ones of the requested audiences.
#[derive(Debug)]
pub(super) struct Vouched {
    user: Arc<User>,
    audiences: Vec<String>,
    notes: Notes,
}

impl Vouched {
    pub(super) fn new(user: Arc<User>, audiences: Vec<String>, notes: Notes) -> Self {
        Self { user, audiences, notes }
    }

    pub(super) fn into_caller(self) -> Caller {
        let Notes { warning, annotations } = self.notes;
        Caller { warning, annotations, ..Caller::of(self.user) }
    }

    pub(super) fn into_parts(self) -> (Arc<User>, Vec<String>) {
        (self.user, self.audiences)
    }
}

/// So many comparisons are faster than making a set.
const FEW: usize = 64;

/// Returns the wanted audiences that are in the list, in the order of the wanted ones. A caller may choose the length of either.
pub(super) fn shared(these: &[String], wanted: &[String]) -> Vec<String> {
    if these.len().saturating_mul(wanted.len()) <= FEW {
        return wanted.iter().filter(|audience| these.contains(audience)).cloned().collect();
    }
    let these: HashSet<&String> = these.iter().collect();
    wanted.iter().filter(|audience| these.contains(audience)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_share_what_short_ones_share_an_55() {
        let texts = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<String>>();
        for length in [3, 1000] {
            let these: Vec<usize> = (0..length).map(|number| number * 2).collect();
            let wanted: Vec<usize> = (0..length).rev().collect();
            let expected: Vec<usize> = wanted.iter().copied().filter(|number| number % 2 == 0).collect();
            assert_eq!(shared(&texts(&these), &texts(&wanted)), texts(&expected));
        }
    }
}
