//! What is asked of the findings, and what is known beside the state.

use super::kubelets::Kubelets;
use super::usage::Usage;
use crate::audit::reach::Asked;

/// What is asked of the findings, and what is known beside the state.
pub struct Wanted<'a> {
    /// The settings of kubelets.
    pub kubelets: &'a Kubelets,
    /// What audit logs showed.
    pub usage: Option<&'a Usage<'a>>,
    /// The number of nodes that may reach a secret by themselves (PC123).
    pub secret_nodes: usize,
    /// How many seconds an audit log must cover before a permission counts as unused (PC134).
    pub unused_after: i64,
    /// Also findings about subjects that no thief of a node has (AU-36).
    pub all_subjects: bool,
    /// Also what the default policy grants, as `info` (AU-33).
    pub include_built_in: bool,
    /// What depends on the time.
    pub asked: Asked<'a>,
    /// The SHA-256 digest of some bytes.
    pub digest: &'a dyn Fn(&[u8]) -> [u8; 32],
}

impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wanted")
    }
}
