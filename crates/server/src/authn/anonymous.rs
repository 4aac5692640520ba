//! Requests without credentials (AN-110 to AN-114).

use std::sync::{Arc, LazyLock};

use policy::User;
use policy::identity::{ANONYMOUS, UNAUTHENTICATED};

static USER: LazyLock<Arc<User>> = LazyLock::new(|| Arc::new(User::new(ANONYMOUS, [UNAUTHENTICATED])));

/// Where requests without credentials are allowed, as `system:anonymous`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anonymous {
    /// On all paths, subject to authorization of `system:anonymous`.
    Everywhere,
    /// On no path.
    Nowhere,
    /// Only on these paths, compared exactly (AN-114). Authorization applies as well.
    At(Vec<String>),
}

impl Anonymous {
    /// Returns the user of a request without credentials; none if this path does not allow it.
    pub(super) fn user(&self, path: &str) -> Option<Arc<User>> {
        let is_served = match self {
            Self::Everywhere => true,
            Self::Nowhere => false,
            Self::At(paths) => paths.iter().any(|served| served == path),
        };
        is_served.then(|| Arc::clone(&USER))
    }

    /// Returns the user without credentials if anonymous requests are allowed on all paths (WH-101).
    pub(super) fn unconditional(&self) -> Option<Arc<User>> {
        (*self == Self::Everywhere).then(|| Arc::clone(&USER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_name_whole_paths_an_114() {
        let anonymous = Anonymous::At(vec!["/livez".to_owned()]);
        assert!(anonymous.user("/livez").is_some());
        for path in ["/livez/", "/livez/ping", "/live", "/LIVEZ", "/", ""] {
            assert!(anonymous.user(path).is_none(), "{path}");
        }
        assert!(anonymous.unconditional().is_none(), "WH-101");
        assert!(Anonymous::Nowhere.user("/livez").is_none());
        assert!(Anonymous::Everywhere.user("/any").is_some());
    }
}
